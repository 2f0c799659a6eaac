import * as z from 'zod';
import { containerVariables, UserError, variable } from '../process/index.ts';
import { GRACE_SECONDS } from '../process/way-down.ts';
import { bounds, inferenceRoutes, Version } from '../protocol/index.ts';
import { RUNPOD_URL } from './runpod/runpod-queue.ts';
import { defaultPauseThreshold } from './telemetry/load-watch.ts';

/** The queues that can give a worker its jobs. */
const QUEUES = ['own', 'runpod'] as const;
type QueueChoice = (typeof QUEUES)[number];

/** A start may take this long with RunPod's queue, s, as with RunPod's own worker. */
const RUNPOD_START_SECONDS = 1200;
/**
 * The grace with RunPod's queue, s: RunPod waits for a worker's jobs, and this is its own limit for a job without one.
 */
const RUNPOD_GRACE_SECONDS = 600;
/** The number of jobs at a time with RunPod's queue: MAX_CONCURRENCY of RunPod's worker. */
const RUNPOD_JOBS = 30;

/**
 * Returns the queue that QUEUE names. If QUEUE is not set, RUNPOD_WEBHOOK_GET_JOB, which RunPod sets in the workers of
 * its endpoints, chooses RunPod's queue.
 * @throws UserError if both queues are named and nothing chooses between them
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

/**
 * Adds, with RunPod's queue, defaults for the variables that an endpoint need not set. A second call changes nothing.
 */
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

/** The longest interval, ms: readers take a stream without events for longer than this for one that hangs. */
const MOST_INTERVAL_MS = 10_000;
/**
 * The default of CASOLA_STREAM_INTERVAL_MAX_MS: long enough to join a few tokens, too short to be seen
 * (docs/decisions/joined-pieces.md).
 */
const INTERVAL_MAX_MS = 20;
/**
 * The number of streams from which pieces wait for one another: with fewer, waiting saves too little for pauses that
 * people see (docs/decisions/joined-pieces.md).
 */
export const MANY_STREAMS = 128;
/** The highest price that a queue accepts from a worker (`Instance`). */
const MOST_PRICE = 1_000_000;
/** The last day that JavaScript can represent, epoch s. */
const LAST_SECOND = 8.64e12;
const HOST_LIST = 'expected host names separated by commas, such as files.example.com,*.example.org';

/** An address of RunPod's platform, opaque except for `$RUNPOD_POD_ID` and `$ID`. */
const address = variable.url('http:', 'https:');
/** The base of addresses that the worker makes by appending paths. */
const base = variable.baseUrl('http:', 'https:');

/** The number of jobs at a time; `auto`: as many as the engine runs concurrently. */
const jobsAtATime = variable.integerOr('auto', 1, 100_000);

/**
 * The worker's own variables as a zod shape. The supervisor checks them together with its own, so that a container
 * reports all bad ones at once, before it starts anything.
 */
export const workerVariables = {
  ...containerVariables,
  CASOLA_WS_URL: variable.baseUrl('ws:', 'wss:').describe('address of the queue, e.g. ws://127.0.0.1:8788'),
  CASOLA_API_URL: base.optional(),
  CASOLA_HEARTBEAT_INTERVAL: variable.seconds(1).default(60),
  CASOLA_MAX_JOBS: jobsAtATime.optional(),
  CASOLA_CAPACITY: jobsAtATime.optional(),
  CASOLA_VERSION: variable.text().pipe(Version).optional(),
  CASOLA_CREATED_AT: variable.number(0, LAST_SECOND).optional(),
  CASOLA_LEASE_SECONDS: variable.seconds(1).default(bounds.LEASE_SECONDS),
  CASOLA_RENEW_LEASE_AFTER: variable.seconds(0.1).optional(),
  CASOLA_SHUTDOWN_GRACE_PERIOD: variable.seconds(0).default(GRACE_SECONDS),
  CASOLA_NOTICE_FILE: variable.path().optional(),
  /** The metadata services of AWS, Google Cloud and Azure have one address. */
  CASOLA_METADATA_URL: variable.baseUrl('http:').default('http://169.254.169.254'),
  WORKER_QUEUE_LOST_SECONDS: variable.seconds(0).default(0),
  WORKER_PRICE_PER_HOUR: variable.number(0, MOST_PRICE).optional(),
  CASOLA_BACKPRESSURE_CHECK_INTERVAL: variable.seconds(0).default(GRACE_SECONDS),
  CASOLA_BACKPRESSURE_PAUSE_THRESHOLD: variable.integer(0).optional(),
  CASOLA_BACKPRESSURE_RESUME_THRESHOLD: variable.integer(0).optional(),
  CASOLA_STREAM_INTERVAL_MS: variable.integer(0, MOST_INTERVAL_MS).default(0),
  CASOLA_STREAM_INTERVAL_MAX_MS: variable.integer(0, MOST_INTERVAL_MS).optional(),
  CASOLA_STREAM_INTERVAL_RAMP_TOKENS: variable.integer(0).default(16),
  DEFAULT_BATCH_SIZE: variable.integer(1).optional(),
  DEFAULT_MIN_BATCH_SIZE: variable.integer(1).optional(),
  DEFAULT_BATCH_SIZE_GROWTH_FACTOR: variable.number(0).optional(),
  QUEUE: z.enum(QUEUES, { error: `expected ${QUEUES.join(' or ')}` }).optional(),
  RUNPOD_WEBHOOK_GET_JOB: address.optional(),
  RUNPOD_WEBHOOK_POST_OUTPUT: address.optional(),
  RUNPOD_WEBHOOK_POST_STREAM: address.optional(),
  RUNPOD_WEBHOOK_PING: address.optional(),
  RUNPOD_PING_INTERVAL: variable.integer(1).default(10_000),
  RUNPOD_AI_API_KEY: variable.header().optional(),
  /** The platform's key, by which the worker ends its machine. */
  RUNPOD_API_KEY: variable.header().optional(),
  CONTAINER_API_KEY: variable.header().optional(),
  /** An invalid address is refused here, since OpenTelemetry's SDK would replace it silently. */
  OTEL_EXPORTER_OTLP_ENDPOINT: address.optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: address.optional(),
  OTEL_EXPORTER_OTLP_HEADERS: variable.headers().optional(),
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: variable.headers().optional(),
  RUNPOD_TEST_INPUT: variable.text().optional(),
  RUNPOD_SERVE_API: variable
    .text()
    .refine((text) => /^(?:\[[\da-f:.]+\]|[\w.-]+):\d+$/i.test(text) && URL.canParse(`http://${text}`), {
      error: 'expected host:port',
    })
    .optional(),
  RUNPOD_REFRESH_WORKER: variable.flag().default(false),
  RUNPOD_OUTPUT: z.enum(['engine', 'tokens'], { error: 'expected engine or tokens' }).default('tokens'),
  RAW_OPENAI_OUTPUT: variable.flag().default(true),
  ALLOW_OPENAI_FORMAT: variable.flag().default(true),
  MIGRATION: z.enum(['exact', 'off'], { error: 'expected exact or off' }).optional(),
  INFERENCE_ROUTES: variable.checkedText(inferenceRoutes).optional(),
  ENGINE_HANG_SECONDS: variable.seconds(0).default(120),
  ENGINE_CANARY_SECONDS: variable.seconds(0).default(0),
  WORKER_METRICS_HOST: variable.host().default('127.0.0.1'),
  WORKER_METRICS_PORT: variable.port().optional(),
  WORKER_PAYLOAD_HOSTS: variable.text().refine(isHostList, { error: HOST_LIST }).optional(),
  WORKER_SPOOL_DIR: variable.path().optional(),
  XDG_STATE_HOME: variable.path().optional(),
  /** The socket of `worker-vllm swap`, which sets it. */
  ENGINE_TURNS: variable.path().optional(),
  ENGINE_AWAKE_SECONDS: variable.seconds(0).default(30),
  HF_HOME: variable.path().optional(),
  HF_TOKEN: variable.header().optional(),
  HF_ENDPOINT: base.default('https://huggingface.co'),
};
type Own = z.infer<z.ZodObject<typeof workerVariables>>;
type JobsAtATime = Pick<Own, 'CASOLA_MAX_JOBS' | 'CASOLA_CAPACITY'>;

export function hostsIn(list: string): string[] {
  return list.split(',').map((host) => host.trim());
}

function isHostList(list: string): boolean {
  return hostsIn(list).every((host) => /^(\*\.)?[\w.[\]:-]+$/.test(host));
}

/** Adds checks of one variable against another; they run even if others are wrong, so that all faults show at once. */
export function withCrossChecks<S extends z.ZodObject<typeof workerVariables>>(schema: S): S {
  const always = { when: () => true };
  return schema
    .refine((given) => !isPartOfPlatform(given), {
      path: ['RUNPOD_WEBHOOK_POST_OUTPUT'],
      error:
        'without it and RUNPOD_WEBHOOK_POST_STREAM no result of a job from RUNPOD_WEBHOOK_GET_JOB could be given',
      ...always,
    })
    .refine((given) => !((given.CASOLA_RENEW_LEASE_AFTER ?? 0) >= given.CASOLA_LEASE_SECONDS), {
      path: ['CASOLA_RENEW_LEASE_AFTER'],
      error: 'expected fewer seconds than CASOLA_LEASE_SECONDS, or the lease runs out before it is renewed',
      ...always,
    })
    .refine(
      (given) =>
        !((given.CASOLA_STREAM_INTERVAL_MAX_MS ?? MOST_INTERVAL_MS) < given.CASOLA_STREAM_INTERVAL_MS),
      {
        path: ['CASOLA_STREAM_INTERVAL_MAX_MS'],
        error: 'expected no less than CASOLA_STREAM_INTERVAL_MS, from which the interval grows',
        ...always,
      },
    )
    .refine((given) => !((given.CASOLA_BACKPRESSURE_RESUME_THRESHOLD ?? 0) > highestPause(given)), {
      path: ['CASOLA_BACKPRESSURE_RESUME_THRESHOLD'],
      error: 'expected no more than CASOLA_BACKPRESSURE_PAUSE_THRESHOLD (a quarter of the slots if left out)',
      ...always,
    });
}

/** Tells whether some addresses are missing: RunPod sets all of its addresses or none. */
function isPartOfPlatform(given: Own): boolean {
  const { QUEUE, RUNPOD_WEBHOOK_GET_JOB: take } = given;
  const { RUNPOD_WEBHOOK_POST_OUTPUT: output, RUNPOD_WEBHOOK_POST_STREAM: stream } = given;
  return QUEUE === 'runpod' && take !== undefined && (output === undefined || stream === undefined);
}

/** Returns the time between two pieces of a stream while many run, ms. */
export function streamIntervalMaxMs(given: Own): number {
  return given.CASOLA_STREAM_INTERVAL_MAX_MS ?? Math.max(INTERVAL_MAX_MS, given.CASOLA_STREAM_INTERVAL_MS);
}

/**
 * Returns the number of jobs at a time. The deployed worker reads both names and uses CASOLA_CAPACITY.
 * @param sideBySide the number that `auto` stands for
 */
export function slotsOf({ CASOLA_MAX_JOBS, CASOLA_CAPACITY }: JobsAtATime, sideBySide: number): number {
  const given = CASOLA_CAPACITY ?? CASOLA_MAX_JOBS ?? 1;
  return given === 'auto' ? sideBySide : given;
}

/** Returns a warning about the number of jobs at a time, or null. */
export function slotsWarning(given: JobsAtATime, sideBySide: number): string | null {
  const { CASOLA_MAX_JOBS: jobs, CASOLA_CAPACITY: capacity } = given;
  if (capacity !== undefined && jobs !== undefined && capacity !== jobs) {
    return `CASOLA_CAPACITY=${capacity} and CASOLA_MAX_JOBS=${jobs} are two names of one thing: CASOLA_CAPACITY counts, as with the deployed worker; set only one`;
  }
  if (capacity !== undefined || jobs !== undefined || sideBySide === 1) return null;
  return `CASOLA_MAX_JOBS is not set, so this worker takes one job at a time; the engine could run ${sideBySide} side by side: set CASOLA_MAX_JOBS=auto, or a number`;
}

/** Returns how many requests may wait in the engine before dispatch is paused. */
export function pauseThresholdOf(given: Own, slots: number): number {
  return given.CASOLA_BACKPRESSURE_PAUSE_THRESHOLD ?? defaultPauseThreshold(slots);
}

/** Returns the highest such threshold, since `auto` may stand for any number of slots. */
function highestPause(given: Own): number {
  return pauseThresholdOf(given, slotsOf(given, Number.POSITIVE_INFINITY));
}
