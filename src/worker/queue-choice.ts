import { UserError } from '../process/index.ts';
import { RUNPOD_URL } from './runpod/runpod-queue.ts';

/** Which queue gives a worker its jobs. */
export const QUEUES = ['own', 'runpod'] as const;
type QueueChoice = (typeof QUEUES)[number];

/** How long a start may take, s: as for RunPod's own worker. */
const RUNPOD_START_SECONDS = 1200;
/** RunPod waits for a worker's jobs; this is its own limit of a job that has none. */
const RUNPOD_GRACE_SECONDS = 600;
/** MAX_CONCURRENCY of RunPod's worker. */
const RUNPOD_JOBS = 30;

/**
 * RunPod sets RUNPOD_WEBHOOK_GET_JOB in the workers of its endpoints, and so chooses its queue. QUEUE decides where it
 * is set.
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

/** One of the local modes of RunPod's SDK, which the command line asks for. */
function isLocal(env: NodeJS.ProcessEnv): boolean {
  return Boolean(env.RUNPOD_TEST_INPUT?.trim() || env.RUNPOD_SERVE_API?.trim());
}

/** With RunPod's queue: what an endpoint need not say, beneath what is set. Done twice, it changes nothing more. */
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
