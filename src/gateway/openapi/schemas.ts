import * as z from 'zod';
import * as files from '../../protocol/file-answers.ts';
import * as fleet from '../../protocol/fleet-schemas.ts';
import * as protocol from '../../protocol/index.ts';
import * as kept from '../../protocol/kept-requests.ts';
import * as responses from '../../protocol/response-rows.ts';
import {
  AppliedSpec,
  Controlled,
  LauncherAnswer,
  LauncherReport,
  Rolled,
  SpecChange,
} from '../../scheduler/rpc.ts';
import { FleetSpec } from '../../scheduler/spec.ts';
import { TokenChanges, TokenRequest } from '../../settings/token-entry.ts';
import { RunpodSubmission } from '../runpod.ts';
import * as answers from './answers.ts';
import * as usage from './answers.ts';
import { AcknowledgeRequest, BatchRequest, ControlRequest, RollBody, SpecRequest } from './requests.ts';

/** A schema that the gateway serves at `/schemas/{id}.json`. */
export interface SchemaEntry {
  schema: z.ZodType;
  /**
   * `received` for what may be sent to us: unknown fields are allowed, and fields with defaults may be left out.
   * `sent` for what we send: readers must ignore fields they do not know.
   */
  direction: 'received' | 'sent';
  description: string;
  examples?: readonly unknown[];
}

const received = (schema: z.ZodType, description: string, ...examples: unknown[]): SchemaEntry => ({
  schema,
  direction: 'received',
  description,
  examples,
});
const sent = (schema: z.ZodType, description: string, ...examples: unknown[]): SchemaEntry => ({
  ...received(schema, description, ...examples),
  direction: 'sent',
});

const CHAT = { messages: [{ role: 'user', content: 'What is the capital of France?' }] };

/** An engine request in JSON: bytes are only in packed frames (docs/protocol.md). */
const EngineRequest = protocol.EngineRequest.extend({ body: z.string().optional() });

/** Every schema that the gateway serves, by the id under which `/schemas/{id}.json` has it. */
export const SCHEMAS = {
  JobSubmission: received(
    protocol.JobSubmission,
    'A job to be stored. Beyond this schema, the payload must suit its type (docs/protocol.md, "Kinds of jobs").',
    { job_type: 'chat_completion', payload: CHAT },
    {
      id: 'report-17',
      job_type: 'engine_request',
      payload: { path: '/v1/completions', body: '{"model":"qwen-small","prompt":"Hello"}' },
      max_attempts: 5,
      deadline_seconds: 3600,
    },
  ),
  ChatPayload: received(protocol.ChatPayload, 'Payload of a job of the type chat_completion.', CHAT),
  EngineRequest: received(
    EngineRequest,
    'Payload of a job of the type engine_request: any inference route of the engine. The path must be a plain path of one of them.',
    { path: '/v1/embeddings', body: '{"model":"bge-small","input":["a","b"]}' },
  ),
  RunpodSubmission: received(RunpodSubmission, "Body of RunPod's run and runsync.", {
    input: { prompt: 'Hello', sampling_params: { max_tokens: 16 } },
  }),
  Heartbeat: received(protocol.Heartbeat, 'What a worker tells of itself from time to time.', {
    instance_id: 'vast-17',
    status: 'starting',
    config_id: 'llama-8b',
    phase: 'loading weights',
    progress: 0.62,
  }),
  LogBatch: received(protocol.LogBatch, 'Log lines of a worker and its engine.', {
    instance_id: 'vast-17',
    entries: [{ timestamp: 1767225600, level: 'info', source: 'worker', message: 'taking jobs' }],
  }),
  MetricBatch: received(protocol.MetricBatch, 'Samples of a worker, its engine and its first GPU.', {
    instance_id: 'vast-17',
    snapshots: [{ timestamp: 1767225600, worker_uptime_s: 60, gpu_utilization_pct: 93 }],
  }),
  WorkerFrame: received(
    protocol.WorkerFrame,
    'A frame that a worker sends on the control socket (/ws).',
    { type: 'register', worker_id: 'vast-17', config_id: 'llama-8b', capacity: 8 },
    { type: 'job_result', job_id: 'report-17', fence_token: 41, result: { status: 'success' } },
  ),
  ClientFrame: received(
    protocol.ClientFrame,
    'A frame that a program sends on /api/jobs/socket; each of the jobs is a JobSubmission with an id.',
    { type: 'listen', ids: ['report-17'] },
  ),
  fleet: received(
    FleetSpec,
    'What an operator writes in fleet.yaml: which models are served, on what machines, for how much at most.',
    {
      budget: { per_hour: 5 },
      providers: { here: { driver: 'process', gpus: [0, 1] } },
      pools: {
        'llama-8b': { model: 'meta-llama/Llama-3.1-8B-Instruct', max: 2, machines: [{ provider: 'here' }] },
      },
    },
  ),
  FleetViewerFrame: received(protocol.FleetViewerFrame, 'A frame that a viewer sends on /api/fleet/live.', {
    type: 'watch',
  }),
  OidcStart: received(protocol.OidcStart, 'Where somebody who signs in at the issuer comes back to.', {
    page: 'https://queue.example.com/',
    at: 'https://queue.example.com/jobs',
  }),
  SignIn: received(protocol.SignIn, 'A token, to sign in to the page with.', { token: 'wv_…' }),
  AnswerHead: received(
    protocol.AnswerHead,
    'Body of the record "head" on the answer socket: what a response can be made of.',
    { status: 200, headers: { 'content-type': 'text/event-stream' } },
  ),
  BrokenReason: received(protocol.BrokenReason, 'Body of the record "broken" on the answer socket.', {
    message: 'the engine died',
    code: 'engine_died',
    retryable: true,
  }),

  QueueFrame: sent(protocol.QueueFrame, 'A frame that the queue sends to a worker on the control socket.', {
    type: 'ack',
    job_id: 'report-17',
    fence_token: 41,
    outcome: 'accepted',
  }),
  ClientAnswer: sent(protocol.ClientAnswer, 'A frame that a program is sent on /api/jobs/socket.', {
    type: 'submitted',
    answers: [{ id: 'report-17' }],
  }),
  JobView: sent(protocol.JobView, 'A stored job. Times are of the queue.'),
  ListedJob: sent(protocol.ListedJob, 'A job in a list: without payload and result, its error in short.'),
  JobPage: sent(answers.JobPage, 'A page of jobs, newest first.', { jobs: [], next: null }),
  SubmittedJob: sent(answers.SubmittedJob, 'What became of one job of an array.'),
  SubmissionError: sent(protocol.SubmissionError, 'Why one job of several was not taken.'),
  SubmittedLine: sent(answers.SubmittedLine, 'What became of the job of one line.'),
  CancelledJob: sent(answers.CancelledJob, 'A job that was cancelled, or had ended before.', {
    id: 'report-17',
    state: 'cancelled',
  }),
  ActedOnJobs: sent(answers.ActedOnJobs, 'What was done to the jobs that match a filter.', {
    jobs: 2,
    ids: ['report-17', 'report-18'],
    next: null,
  }),
  LedgerView: sent(protocol.LedgerView, 'What happened to a job, step by step.'),
  Webhook: sent(answers.Webhook, 'What is posted to the webhook of a job when it is settled.'),
  Failure: sent(protocol.Failure, 'Why a job failed.'),
  AttemptError: sent(protocol.AttemptError, 'How one attempt at a job failed.'),
  WorkerView: sent(answers.WorkerView, 'A worker that is connected, or was heard of.'),
  WorkerList: sent(answers.WorkerList, 'All workers, by id.', { workers: [] }),
  LogPage: sent(answers.LogPage, 'Log lines of a worker, in their order.'),
  MetricPage: sent(answers.MetricPage, 'Samples of a worker, in their order.'),
  FleetView: sent(
    fleet.FleetView,
    'The fleet as the dashboard shows it. Times are epoch ms; null is unknown.',
  ),
  FleetSummary: sent(fleet.FleetSummary, 'How the fleet does, in a word and a sentence.'),
  AcknowledgeRequest: received(AcknowledgeRequest, 'Which problem of the attention list is seen to.', {
    id: 'worker_error/vast-17',
  }),
  Attention: sent(fleet.Attention, 'One thing that needs somebody, and what to do about it.'),
  AlertsView: sent(
    protocol.AlertsView,
    'The receivers of alerts, and the mutes in force. Times are epoch ms.',
    {
      receivers: [],
      mutes: [],
    },
  ),
  AlertReceiverRow: sent(
    protocol.AlertReceiverRow,
    'A receiver of alerts, without its address and its keys.',
  ),
  MuteRequest: received(protocol.MuteRequest, 'Which problems nothing is posted of, and for how long.', {
    pool: 'llama-8b',
    for: '2h',
    why: 'the machines are moved',
  }),
  AlertMute: sent(protocol.AlertMute, 'A rule by which nothing is posted of some problems until a time.'),
  TestPost: sent(protocol.TestPost, 'Whether a receiver has taken a test post, and how it answered.', {
    taken: true,
    text: 'ops took the test post: it answered 202.',
  }),
  WorkerRow: sent(fleet.WorkerRow, 'A worker as the dashboard shows it.'),
  PoolRow: sent(fleet.PoolRow, 'A pool as the dashboard shows it.'),
  FleetFrame: sent(fleet.FleetFrame, 'A frame that a viewer is sent on /api/fleet/live.'),
  RequestPage: sent(answers.RequestPage, 'A page of requests that have ended, newest first.', {
    requests: [],
    next: null,
  }),
  ResponseRowPage: sent(responses.ResponseRowPage, 'A page of stored responses, newest first.', {
    responses: [],
    next: null,
  }),
  ResponsePlace: sent(responses.ResponsePlace, 'A stored response with what it goes on from.'),
  FleetHistory: sent(fleet.FleetHistory, 'What was measured over time, in columns of equal length.'),
  Usage: sent(usage.Usage, 'Tokens and requests that were counted, by hour or day of UTC.'),
  Sharing: sent(protocol.Sharing, 'What tenants have of the pools that they share.', { pools: [] }),
  UsageExportRow: sent(
    usage.UsageExportRow,
    'A line of an export: what was used on a day (usage), or what launched machines of a pool cost beyond that (idle).',
  ),
  KeptRequests: sent(
    kept.KeptRequests,
    'How many requests are kept with their answers, by the hour (UTC) of their end.',
  ),
  KeptRequest: sent(
    kept.KeptRequest,
    "A request with its answer, in the names of OpenTelemetry's conventions for generative AI.",
  ),
  ErasedRequests: sent(kept.ErasedRequests, 'How many kept requests were erased.'),
  UsagePage: sent(usage.UsagePage, 'The same in the form of OpenAI.'),
  TokenRequest: received(TokenRequest, 'A token to be made.', { name: 'team-a', scopes: ['submit'] }),
  TokenChanges: received(TokenChanges, 'What is to be changed of a token.', {
    limits: { requests_per_minute: 60 },
  }),
  LimitList: sent(protocol.LimitList, 'How tokens stand to their limits.'),
  TokenView: sent(protocol.TokenView, 'A token, without what would let anybody use it.'),
  TokenList: sent(protocol.TokenList, 'All tokens.'),
  NewToken: sent(protocol.NewToken, 'A token that was made: shown this once.'),
  AuditEntry: sent(protocol.AuditEntry, 'One action of a person.'),
  AuditPage: sent(protocol.AuditPage, 'A page of them, newest first.', { entries: [], next: null }),
  SessionView: sent(protocol.SessionView, 'Whom the page acts for.', {
    asks_for_token: true,
    name: 'dashboard',
    scopes: ['read'],
    expires_at: '2026-01-31T20:00:00.000Z',
  }),
  OidcView: sent(protocol.OidcView, 'Where people sign in as themselves.', {
    issuer: 'login.example.com',
    problem: null,
  }),
  OidcStarted: sent(protocol.OidcStarted, 'Where the browser goes.', {
    url: 'https://login.example.com/authorize?client_id=queue',
  }),
  Health: sent(answers.Health, 'That the gateway is up; with the scope read also how the queue stands.', {
    status: 'ok',
  }),
  Scale: sent(answers.Scale, 'How much work there is for the workers of a pool.', {
    config_id: 'qwen-small',
    pending: 5,
    running: 20,
    pending_and_running: 25,
    slots: 32,
    slots_per_worker: 16,
    workers: 2,
    ready_workers: 2,
    wanted_workers: 2,
  }),
  SpecRequest: received(SpecRequest, "A fleet's file, as JSON.", {
    spec: {
      budget: { per_hour: 4 },
      providers: { here: { driver: 'process' } },
      pools: { tiny: { engine: 'simulator', model: 'tiny', max: 3, machines: [{ provider: 'here' }] } },
    },
    dry_run: true,
  }),
  AppliedSpec: sent(AppliedSpec, "The fleet's file in force, with all defaults; durations in seconds."),
  SpecChange: sent(SpecChange, 'What a file changes, and what its workers cost; US dollars an hour.'),
  ControlRequest: received(ControlRequest, 'How an operator acts on a pool.', { dry_run: true }),
  Controlled: sent(Controlled, 'What became of it.'),
  RollBody: received(RollBody, "What an operator says about the versions of a pool's workers.", {
    action: 'back',
    dry_run: true,
  }),
  Rolled: sent(Rolled, 'What became of it, and the version that all workers are to have.'),
  LauncherReport: received(LauncherReport, 'What a launcher has seen and done since it last told.', {
    drivers: ['process'],
    host: 'gpu-1',
    lists: [{ provider: 'here', age_ms: 40, machines: [], error: null }],
    results: [],
    prices: [],
  }),
  LauncherAnswer: sent(LauncherAnswer, 'What a launcher is to do, and when to come again.'),
  Ok: sent(answers.Ok, 'It was taken.', { status: 'ok' }),
  Model: sent(
    answers.Model,
    "A model that is served, with the engine's own fields and the pool beside them.",
  ),
  StoredFile: sent(files.StoredFile, 'An uploaded file; times in epoch seconds.'),
  BatchRequest: received(BatchRequest, 'A batch to be run.', {
    input_file_id: 'file-1',
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  }),
  Batch: sent(files.Batch, 'A batch as it stands; times in epoch seconds.'),
  BatchList: sent(files.BatchList, 'A page of them.'),
  StoredFileList: sent(files.StoredFileList, 'A page of them.'),
  ModelList: sent(answers.ModelList, 'The models that connected workers serve, then their aliases.'),
  RunpodSubmitted: sent(answers.RunpodSubmitted, 'A job that was stored, in the form of RunPod.', {
    id: 'a1-u1',
    status: 'IN_QUEUE',
  }),
  RunpodJob: sent(protocol.RunpodJob, 'A job in the form of RunPod; times in ms.', {
    id: 'a1-u1',
    status: 'COMPLETED',
    delayTime: 12,
    executionTime: 830,
    output: [],
  }),
  RunpodStream: sent(answers.RunpodStream, 'What a job yielded since the last call.'),
  RunpodHealth: sent(answers.RunpodHealth, 'Jobs and workers of an endpoint.'),
  RunpodPurged: sent(answers.RunpodPurged, 'How many jobs were removed.', {
    removed: 2,
    status: 'completed',
  }),
  OpenAIError: sent(answers.OpenAIError, "An error, in OpenAI's form.", {
    error: { message: 'No job has the id "x".', type: 'not_found_error', param: null, code: 'job_not_found' },
  }),
  AnthropicError: sent(answers.AnthropicError, "An error of /v1/messages, in Anthropic's form.", {
    type: 'error',
    error: { type: 'not_found_error', message: 'The model "x" is not known here.' },
    request_id: 'r1',
  }),
  RunpodError: sent(answers.RunpodError, "An error of RunPod's endpoints.", {
    error: 'There is no job "x".',
  }),
} satisfies Record<string, SchemaEntry>;

export type SchemaId = keyof typeof SCHEMAS;
