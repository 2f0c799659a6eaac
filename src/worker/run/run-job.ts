import type { Failure, Job, JobError, QueueProfile } from '../../protocol/index.ts';
import type { AnswerStream } from '../answers/answer-stream.ts';
import { failureOf, finalFailure } from '../failure.ts';
import type { FileAccess } from '../files/file-access.ts';
import { downloadFile, downloadPayload } from '../files/transfer.ts';
import type { Settlement } from '../jobs/settlement.ts';
import type { Ports, RunEngine, WorkObserver } from '../ports.ts';
import type { Attempt, IdsAsking, UsageAsking } from './attempt.ts';
import { AdaptedEngine, checkedEngine, tracedEngine, withEngineRetries } from './attempt-engine.ts';
import { baseTaskOf, KNOWN_TASKS, runBaseTask, runnerOf } from './base-tasks.ts';
import { relayEngineRequest, runEngineRequest } from './engine-request-job.ts';
import { idsOf, type RunningJob } from './running-job.ts';
import type { RunpodSettings } from './runpod-input.ts';
import { isRunpodJob, runRunpodJob } from './runpod-job.ts';
import type { ServedModels } from './served-models.ts';

/** The things that the worker asks the engine for in addition to the callers' own requests. */
export interface Asking {
  /** Whether the engine takes requests for usage; null: the queue does not count tokens. */
  usageAsking: UsageAsking | null;
  /** Whether the engine takes requests for token ids; null: answers are not moved. */
  idsAsking: IdsAsking | null;
}

export const NOT_ASKED: Asking = { usageAsking: null, idsAsking: null };

/** Returns the state for an engine of which nothing is known yet. @param moves whether answers are moved */
export function askingOf(moves: boolean): Asking {
  return { usageAsking: { engine: 'untried' }, idsAsking: moves ? { engine: 'untried' } : null };
}

export interface RunPorts
  extends Asking,
    Pick<Ports, 'clock' | 'engine' | 'layers' | 'adapters' | 'fetch' | 'fetchPublic' | 'log' | 'inside'> {
  files: FileAccess;
  models: ServedModels;
  /** The queue that the job came from. */
  peer: QueueProfile | null;
  observer: Pick<WorkObserver, 'requested'>;
  runpod: RunpodSettings;
}

/**
 * Runs one attempt from the job's frame to the frame that settles it. Never throws: every failure becomes a settlement
 * too. Up to the request to the engine it does not give up its turn of the event loop.
 * @param stream takes the answer if a caller waits for it, or a copy of it if a stored job is watched
 */
export async function runJob(
  running: RunningJob,
  stream: AnswerStream | null,
  ports: RunPorts,
): Promise<Settlement> {
  const { job } = running;
  const traced = tracedEngine(ports.engine, running, ports.clock);
  const layered = (ports.layers ?? []).reduce<RunEngine>((engine, layer) => layer.over(engine), traced);
  const adapted = ports.adapters ? new AdaptedEngine(layered, ports.adapters) : null;
  try {
    const payload = job.payload_url
      ? await downloadPayload(ports, ports.files, job.payload_url, running.signal)
      : job.payload;
    const attempt = attemptAt(running, payload, adapted ?? layered, ports);
    const result = ports.peer?.repeatsAttempts
      ? await runKind(attempt, stream, ports)
      : await withEngineRetries(
          ports.clock,
          running.signal,
          () => running.hasYielded || (stream?.size ?? 0) > 0,
          () => runKind(attempt, stream, ports),
        );
    const { job_id, fence_token } = job;
    return { type: 'job_result', job_id, fence_token, result };
  } catch (error) {
    return failJob(job, failureOf(error), stream);
  } finally {
    adapted?.release();
  }
}

/** Returns the frame of a failure, and reports the failure to a waiting caller. */
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

function attemptAt(running: RunningJob, payload: unknown, engine: RunEngine, ports: RunPorts): Attempt {
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) {
    const given = payload === null ? 'null' : Array.isArray(payload) ? 'a list' : typeof payload;
    throw finalFailure('invalid_request', `payload: expected an object, got ${given}`);
  }
  const { models, peer, files, log, clock } = ports;
  const { partial = null } = running.job;
  return {
    jobId: running.job.job_id,
    jobType: running.job.job_type,
    configId: running.job.config_id,
    payload,
    engine: checkedEngine(engine, partial !== null || 'continues' in payload),
    signal: running.signal,
    routes: ports.runpod.routes,
    modelAliases: models.aliases,
    servedModel: models.own,
    modelFor: (asked) => (peer?.choosesByModel ? models.named(asked) : models.served(asked)),
    download: (url) => downloadFile(ports, files, url, running.signal),
    requested: () => {
      log.debug(idsOf(running.job), 'request to the engine');
      running.requested(clock.now());
      ports.observer.requested();
    },
    streamed: () => running.streamed(clock.now()),
    yielded: (output) => {
      if (!ports.inside || running.isOver) return;
      running.hasYielded = true;
      ports.inside.yielded(running.job.stream_id!, output);
    },
    usageAsking: ports.usageAsking,
    idsAsking: ports.idsAsking,
    partial,
    assembles: (assembly) => {
      running.assembly = assembly;
    },
    used: (usage) => {
      running.usage = usage;
    },
    counting: (usage) => {
      running.counting = usage;
    },
    generated: (tokens) => {
      running.generatedTokens = tokens;
    },
    timestamp: () => new Date(clock.now()).toISOString(),
  };
}

function runKind(
  attempt: Attempt,
  stream: AnswerStream | null,
  { clock, runpod: settings }: RunPorts,
): Promise<Record<string, unknown>> {
  const { jobType, payload } = attempt;
  if (isRunpodJob(jobType, payload)) return runRunpodJob(attempt, stream, { clock, settings });
  if (jobType === 'engine_request') {
    return stream && !stream.isReplayed
      ? relayEngineRequest(attempt, stream)
      : runEngineRequest(attempt, stream);
  }
  const task = baseTaskOf(jobType, payload);
  const run = task === null ? undefined : runnerOf(task);
  if (task !== null && run) return runBaseTask(attempt, task, run);
  const problem =
    task === null
      ? `this worker runs chat_completion, llm_inference, engine_request and runpod jobs, not "${jobType}"`
      : `this worker runs the tasks ${KNOWN_TASKS.join(', ')}, not "${task}"`;
  throw finalFailure('unsupported_job_type', problem);
}
