import { UserError } from '../process/index.ts';
import { RUNPOD_URL } from './runpod/runpod-queue.ts';

/** The queues that can give a worker its jobs. */
export const QUEUES = ['own', 'runpod'] as const;
type QueueChoice = (typeof QUEUES)[number];

/** A start may take this long with RunPod's queue, s: as with RunPod's own worker. */
const RUNPOD_START_SECONDS = 1200;
/**
 * The grace with RunPod's queue, s: RunPod waits for a worker's jobs, and this is its own limit of a job without one.
 */
const RUNPOD_GRACE_SECONDS = 600;
/** The jobs at a time with RunPod's queue: MAX_CONCURRENCY of RunPod's worker. */
const RUNPOD_JOBS = 30;

/**
 * Returns the queue that QUEUE names. Where QUEUE is not set, RUNPOD_WEBHOOK_GET_JOB chooses RunPod's queue: RunPod
 * sets it in the workers of its endpoints.
 * @throws UserError where both queues are named and nothing chooses between them
 */
function chosenQueue(env: NodeJS.ProcessEnv): QueueChoice {
  const chosen = QUEUES.find((name) => name === env.QUEUE?.trim());
  if (chosen) return chosen;
  if (isLocal(env)) return 'runpod';
  if (!env.RUNPOD_WEBHOOK_GET_JOB?.trim()) return 'own';
  if (!env.CASOLA_WS_URL?.trim()) return 'runpod';
  throw new UserError(
    'CASOLA_WS_URL and RUNPOD_WEBHOOK_GET_JOB name two queues: set QUEUE=own to take jobs from the first, ' +
      'QUEUE=runpod to take them from the RunPod endpoint that this container belongs to.',
  );
}

/** Tells whether the command line asks for one of the local modes of RunPod's SDK. */
function isLocal(env: NodeJS.ProcessEnv): boolean {
  return Boolean(env.RUNPOD_TEST_INPUT?.trim() || env.RUNPOD_SERVE_API?.trim());
}

/** Adds, with RunPod's queue, defaults for what an endpoint need not set. Done twice, it changes nothing more. */
export function withQueueDefaults(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  if (chosenQueue(env) !== 'runpod') return env;
  const endpoint = env.RUNPOD_ENDPOINT_ID?.trim() || 'runpod';
  const initSeconds = Number(env.RUNPOD_INIT_TIMEOUT) || 0;
  const defaults: Record<string, string> = {
    CASOLA_QUEUE_ID: endpoint,
    CASOLA_CONFIG_ID: endpoint,
    CASOLA_SHUTDOWN_GRACE_PERIOD: String(RUNPOD_GRACE_SECONDS),
    VLLM_STARTUP_TIMEOUT: String(Math.max(RUNPOD_START_SECONDS, initSeconds)),
    RUNPOD_OUTPUT: 'engine',
    ...(env.CASOLA_CAPACITY?.trim()
      ? {}
      : { CASOLA_MAX_JOBS: env.MAX_CONCURRENCY?.trim() || String(RUNPOD_JOBS) }),
  };
  const missing = Object.entries(defaults).filter(([name]) => !env[name]?.trim());
  return { ...env, ...Object.fromEntries(missing), QUEUE: 'runpod', CASOLA_WS_URL: RUNPOD_URL };
}
