import type { Failure, Job, JobError, JobType } from '../../protocol/index.ts';
import type { AnswerStream } from '../answers/answer-stream.ts';
import { failureOf, finalFailure } from '../failure.ts';
import type { FileAccess } from '../files/file-access.ts';
import { downloadPayload } from '../files/transfer.ts';
import type { Ports } from '../ports.ts';
import type { Settlement } from '../results/settlement.ts';
import type { Attempt } from './attempt.ts';
import { runChatJob } from './chat-job.ts';
import { relayEngineRequest, runEngineRequest } from './engine-request-job.ts';
import type { RunningJob } from './running-job.ts';

/** What a base queue calls a chat job. */
const BASE_CHAT_TASK = 'openai/chat-completion';

export interface RunPorts extends Pick<Ports, 'clock' | 'engine' | 'fetch' | 'fetchPublic' | 'log'> {
  files: FileAccess;
  modelAliases: ReadonlySet<string>;
  servedModel: string | undefined;
}

/**
 * One attempt from the job's frame to the frame that settles it. Never throws: whatever goes wrong is a
 * settlement too. Up to the request to the engine it runs without giving up its turn.
 * @param stream where the answer goes when a caller waits for it, or a copy of it when a stored job is watched
 */
export async function runJob(
  running: RunningJob,
  stream: AnswerStream | null,
  ports: RunPorts,
): Promise<Settlement> {
  const { job } = running;
  try {
    const payload = job.payload_url
      ? await downloadPayload(ports, ports.files, job.payload_url, running.signal)
      : job.payload;
    const result = await runKind(attemptAt(running, payload, ports), stream);
    return { type: 'job_result', job_id: job.job_id, fence_token: job.fence_token, result };
  } catch (error) {
    return failJob(job, failureOf(error), stream);
  }
}

/** The frame of a failure; a waiting caller is told too. */
export function failJob(job: Job, failure: Failure, stream: AnswerStream | null): JobError {
  const { message, body, ...rest } = failure;
  stream?.break({ message, ...rest });
  return {
    type: 'job_error',
    job_id: job.job_id,
    fence_token: job.fence_token,
    error: message,
    ...rest,
    ...(body === undefined ? {} : { body }),
  };
}

function attemptAt(running: RunningJob, payload: unknown, ports: RunPorts): Attempt {
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) {
    const given = payload === null ? 'null' : Array.isArray(payload) ? 'a list' : typeof payload;
    throw finalFailure('invalid_request', `payload: expected an object, got ${given}`);
  }
  return {
    jobId: running.job.job_id,
    jobType: jobTypeOf(running.job, payload),
    payload,
    engine: ports.engine,
    signal: running.signal,
    modelAliases: ports.modelAliases,
    servedModel: ports.servedModel,
    requested: () => {
      ports.log.debug({ job_id: running.job.job_id }, 'request to the engine');
      running.requested(ports.clock.now());
    },
    streamed: () => running.streamed(ports.clock.now()),
    generated: (tokens) => {
      running.generatedTokens = tokens;
    },
    timestamp: () => new Date(ports.clock.now()).toISOString(),
  };
}

/** A base queue names no type: its payload's `task` does, or nothing, which means chat. */
function jobTypeOf(job: Job, payload: object): string {
  if (job.job_type !== undefined) return job.job_type;
  const task = 'task' in payload ? payload.task : undefined;
  return task === undefined || task === BASE_CHAT_TASK ? 'chat_completion' : String(task);
}

function runKind(attempt: Attempt, stream: AnswerStream | null): Promise<Record<string, unknown>> {
  switch (attempt.jobType as JobType) {
    case 'chat_completion':
    case 'llm_inference':
      return runChatJob(attempt);
    case 'engine_request':
      return stream && !stream.isTape
        ? relayEngineRequest(attempt, stream)
        : runEngineRequest(attempt, stream);
    default:
      throw finalFailure(
        'unsupported_job_type',
        `this worker runs chat_completion, llm_inference and engine_request jobs, not "${attempt.jobType}"`,
      );
  }
}
