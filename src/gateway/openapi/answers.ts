import * as z from 'zod';
import {
  AdapterState,
  type ApiError,
  JobView,
  ListedJob,
  LogLine,
  MetricSample,
  ModelCard,
  RunpodStatus,
  SubmissionError,
} from '../../protocol/index.ts';
import { RequestRecord } from '../../protocol/request-schema.ts';
import { QueueStatus, REPORTED_AMOUNTS, USAGE_AMOUNTS, USAGE_KEYS } from '../../queue/rpc.ts';

/** Schemas of answers that only the OpenAPI document uses: the code writes such answers and never reads them. */

const count = z.number().int().min(0);
const isoTime = z.iso.datetime();

export const Ok = z.object({ status: z.literal('ok') });

export const JobPage = z.object({
  jobs: z.array(ListedJob),
  next: z.string().nullable().describe('The cursor of the next page; null: there is none.'),
});

export const RequestPage = z.object({
  requests: z.array(RequestRecord),
  next: z.string().nullable().describe('The cursor of the next page; null: there is none.'),
});

export const SubmittedJob = z.union([z.object({ job: JobView }), z.object({ error: SubmissionError })]);

export const SubmittedLine = z.union([
  z.object({ line: z.number().int().min(1), job: JobView }),
  z.object({ line: z.number().int().min(1), error: SubmissionError }),
]);

export const CancelledJob = z.union([JobView, z.object({ id: z.string(), state: z.literal('cancelled') })]);

export const ActedOnJobs = z.object({
  jobs: count.describe('That were changed, or in a dry run would be.'),
  ids: z.array(z.string()).describe('The first 20 that matched.'),
  next: z.string().nullable().describe('The cursor of the request that goes on; null: these were all.'),
});

export const Webhook = z.object({
  type: z.enum(['job.succeeded', 'job.failed', 'job.cancelled', 'job.expired']),
  timestamp: isoTime,
  data: JobView.extend({
    result: z.unknown(),
    result_url: z.string().optional().describe('Where a long result is read, relative to the queue.'),
  }),
});

/** A worker in the form that operators see. */
export const WorkerView = z.object({
  worker_id: z.string(),
  instance_id: z.string(),
  config_id: z.string().nullable(),
  /**
   * The worker's state: connected and taking jobs, connected and taking none, draining, or known only by its
   * heartbeats.
   */
  state: z.enum(['ready', 'paused', 'draining', 'disconnected']),
  /** The status of the worker's last heartbeat; null where none came. */
  status: z.string().nullable(),
  phase: z.string().nullable(),
  error_message: z.string().nullable(),
  protocol: z.enum(['base', 'extended']).nullable(),
  capacity: count,
  running: count,
  /** The number of requests that the worker's engine runs side by side; null where the worker does not report it. */
  engine_requests: count.nullable(),
  host: z.string().nullable(),
  gpu: z.string().nullable(),
  engine: z.string().nullable(),
  engine_version: z.string().nullable(),
  version: z.string().nullable().describe('Of what it was started with (CASOLA_VERSION).'),
  models: z.array(z.string()),
  adapters: AdapterState.nullable().describe('Of a worker that loads LoRA adapters.'),
  connected_at: isoTime.nullable(),
  last_heartbeat_at: isoTime.nullable(),
});

export const WorkerList = z.object({ workers: z.array(WorkerView) });

const numbered = { number: z.number().int().min(0).describe('For `before` and `after`.') };
const page = { worker_id: z.string(), has_more: z.boolean() };
// The queue cuts the message of a line when it stores it.
const message = z.string();
export const LogPage = z.object({ ...page, logs: z.array(LogLine.extend({ ...numbered, message })) });
export const MetricPage = z.object({ ...page, metrics: z.array(MetricSample.extend(numbered)) });

const HealthOfQueue = QueueStatus.extend({
  status: z.literal('ok'),
  models: z.array(z.string()).describe('That the workers that are there serve.'),
  gpu_memory_used_bytes: count.nullable().describe('Of all their GPUs; null: none tells.'),
  gpu_memory_total_bytes: count.nullable(),
});
export const Scale = z.object({
  config_id: z.string(),
  pending: count,
  running: count,
  pending_and_running: count,
  slots: count.describe('Of the workers that are connected.'),
  slots_per_worker: z
    .number()
    .min(0)
    .nullable()
    .describe('By the last worker where none is connected; null: none ever was.'),
  workers: count.describe('Connected.'),
  ready_workers: count.describe('Of these, those that take jobs.'),
  wanted_workers: count.describe('That could run at once all that waits and runs.'),
});
const HealthWithoutQueue = Ok.extend({
  queue_away_since: z.iso
    .datetime()
    .describe("Of a gateway process apart: since when it has not reached its queue's process."),
});
export const Health = z.union([HealthOfQueue, HealthWithoutQueue, Ok]);

const pool = z.object({
  id: z.string(),
  state: z
    .enum(['ready', 'paused', 'starting', 'scaled_to_zero', 'stopped'])
    .describe(
      'The last three have no worker: one is started, would be for a request, or is not started at all.',
    ),
  progress: z.number().nullable().optional().describe('Of `starting`, from 0 to 1; null: not told.'),
  detail: z.string().optional().describe('What is waited for, or why no worker is started.'),
});
const aliasFields = {
  alias: z.literal(true).optional().describe('The name stands for other models.'),
  alias_of: z.string().optional().describe('The model of the alias that is served, the first of several.'),
  steps: z
    .array(
      z.object({
        model: z.string(),
        weight: z.number().optional().describe('The share of the model among those with a weight.'),
        external: z.literal(true).optional().describe('The model is served elsewhere.'),
        on: z
          .array(z.union([z.string(), z.object({ starting_over: z.number() })]))
          .optional()
          .describe('What lets a request go on to this model.'),
      }),
    )
    .optional()
    .describe('The models that the alias stands for, for tokens with the scope read.'),
};
export const Model = z.union([
  ModelCard.extend({ pool, ...aliasFields }),
  z.object({
    id: z.string(),
    object: z.literal('model'),
    created: count,
    owned_by: z.string(),
    pool,
    ...aliasFields,
  }),
]);
export const ModelList = z.object({ object: z.literal('list'), data: z.array(Model) });

export const RunpodSubmitted = z.object({ id: z.string(), status: z.literal('IN_QUEUE') });
/** The outputs that a job yielded since the last call. */
export const RunpodStream = z.object({
  id: z.string(),
  status: RunpodStatus,
  stream: z.array(z.object({ output: z.unknown() })),
  error: z.string().optional(),
});
/** Numbers of an endpoint's workers by their state. */
export const RunpodWorkers = z.object({
  idle: count,
  initializing: count,
  ready: count,
  running: count,
  throttled: count,
  unhealthy: count,
});
export const RunpodHealth = z.object({
  jobs: z.object({ inQueue: count, inProgress: count, completed: count, failed: count, retried: count }),
  workers: RunpodWorkers,
});
export const RunpodPurged = z.object({ removed: count, status: z.literal('completed') });

type Code = ApiError['code'];
const code: z.ZodType<Code> = z.union([z.string(), z.number()]).nullable();
export const OpenAIError = z.object({
  error: z.object({ message: z.string(), type: z.string(), param: z.string().nullable(), code }),
});
export const AnthropicError = z.object({
  type: z.literal('error'),
  error: z.object({ type: z.string(), message: z.string() }),
  request_id: z.string().optional(),
});
export const RunpodError = z.object({ error: z.string() });

const amount = z.number().int();
const { nanodollars: _, ...amounts } = Object.fromEntries(
  USAGE_AMOUNTS.map((name) => [name, amount]),
) as Record<(typeof USAGE_AMOUNTS)[number], typeof amount>;
/** The cost of slots whose worker's price is known, US dollars; null where none is known. */
const cost = { dollars: z.number().nullable() };
const keys = Object.fromEntries(USAGE_KEYS.map((name) => [name, z.string().optional()]));

export const Usage = z.object({
  since: z.string(),
  until: z.string(),
  width: z.enum(['day', 'hour']),
  usage: z.array(z.object({ start: z.string(), ...keys, ...amounts, ...cost })),
  total: z.object({ ...amounts, ...cost }),
  /** The cost of pools' launched machines on each day beyond what jobs used of them. */
  idle: z.array(z.object({ start: z.string(), config_id: z.string(), dollars: z.number() })),
  stored: z.array(z.object({ tenant: z.string().nullable(), bytes: count })),
});

const figure = z.number().nullable();

export const UsageExportRow = z.object({
  kind: z.enum(['usage', 'idle']),
  day: z.string().describe('The day of UTC, such as 2026-11-01.'),
  ...Object.fromEntries(USAGE_KEYS.map((key) => [key, z.string().nullable()])),
  ...Object.fromEntries(REPORTED_AMOUNTS.map((name) => [name, amount])),
  slot_seconds: figure,
  unpriced_slot_seconds: figure,
  dollars: figure,
});

const seconds = z.number().int();
const name = z.string().nullable();

export const UsagePage = z.object({
  object: z.literal('page'),
  data: z.array(
    z.object({
      object: z.literal('bucket'),
      start_time: seconds,
      end_time: seconds,
      results: z.array(
        z.object({
          object: z.literal('organization.usage.completions.result'),
          input_tokens: count,
          input_cached_tokens: count,
          output_tokens: count,
          input_audio_tokens: count,
          output_audio_tokens: count,
          num_model_requests: count,
          project_id: name,
          user_id: name,
          api_key_id: name,
          model: name,
          batch: z.boolean().nullable(),
          service_tier: name,
        }),
      ),
    }),
  ),
  has_more: z.boolean(),
  next_page: z.string().nullable(),
});
