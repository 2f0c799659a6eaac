import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import * as z from 'zod';
import { engineConfiguration, engineVariables } from '../engine/command/configuration.ts';
import { adapterRoom, modelRevision, requestsSideBySide } from '../engine/command/default-flags.ts';
import { describeEngine } from '../engine/kinds/index.ts';
import { homeFolder } from '../process/environment.ts';
import { instanceIdOf, readEnvironment, UserError } from '../process/index.ts';
import { bounds, inferenceRoutes } from '../protocol/index.ts';
import { RUNPOD_DEFAULTS, type RunpodSettings } from './run/runpod-input.ts';
import type { RunpodQueueSettings } from './runpod/open.ts';
import type { BackpressureSettings } from './telemetry/load-watch.ts';
import {
  hostsIn,
  MANY_STREAMS,
  pauseThresholdOf,
  slotsOf,
  slotsWarning,
  streamIntervalMaxMs,
  withCrossChecks,
  workerVariables,
} from './variables.ts';

/** The engine's settings that a supervisor reads from the arguments with which it starts the engine. */
export interface EngineArguments {
  /** The number of requests that the engine runs concurrently. */
  requests: number;
  /** The number of adapters that the engine can have loaded at once. */
  adapters: number;
  /** The revision of the model that the engine loads; null: the newest. */
  revision: string | null;
}

/** The configuration of a worker, as its environment sets it. */
export type WorkerConfiguration = ReturnType<typeof readWorkerConfiguration>;

/**
 * A result to RunPod's queue waits this long for its acknowledgement, ms: an output and its end are two POSTs over the
 * internet, one after the other, and a file costs as much as a job.
 */
const RUNPOD_ACK_WAIT_MS = 1000;

type Own = z.infer<z.ZodObject<typeof workerVariables>>;

/**
 * Reads a worker's configuration from the environment.
 * @param started the engine's settings, if a supervisor knows them
 * @throws UserError naming every variable that is missing or wrong
 */
export function readWorkerConfiguration(env: NodeJS.ProcessEnv, started?: EngineArguments) {
  const { VLLM_MODEL, ENGINE, ENGINE_URL } = env;
  const isAlone = started === undefined;
  // A worker alone starts no engine, so it lacks the address of one.
  const lacksEngine = isAlone && ![VLLM_MODEL, ENGINE, ENGINE_URL].some((value) => value?.trim());
  const asked = lacksEngine ? { ...env, ENGINE: 'external' } : env;
  const schema = withCrossChecks(z.object({ ...engineVariables(asked), ...workerVariables }));
  const given = readEnvironment(schema, asked);
  const workerId = instanceIdOf(given);
  const engine = engineConfiguration(given);
  const args = engine.settings?.extraArgs ?? [];
  const sideBySide = started?.requests ?? requestsSideBySide(describeEngine(engine.engine), args);
  const capacity = slotsOf(given, sideBySide);
  const warning = slotsWarning(given, sideBySide);
  return {
    wsUrl: given.CASOLA_WS_URL.replace(/\/+$/, ''),
    queueId: given.CASOLA_QUEUE_ID,
    configId: given.CASOLA_CONFIG_ID,
    /** The name of this instance, which is also the worker's id. */
    instanceId: workerId,
    host: hostname(),
    apiUrl: given.CASOLA_API_URL?.replace(/\/+$/, ''),
    token: given.CASOLA_API_TOKEN,
    heartbeatIntervalSeconds: given.CASOLA_HEARTBEAT_INTERVAL,
    /** The number of jobs that this worker runs at a time. */
    capacity,
    /** The number of requests that the engine runs concurrently. */
    engineRequests: sideBySide,
    /** The version of what this worker was started with; null: nobody names it. */
    version: given.CASOLA_VERSION ?? null,
    /** When the platform created this container, epoch s; null: the platform does not say. */
    createdAt: given.CASOLA_CREATED_AT ?? null,
    /** Warnings that the log shows once. */
    warnings: warning === null ? [] : [warning],
    leaseSeconds: given.CASOLA_LEASE_SECONDS,
    renewAfterSeconds: given.CASOLA_RENEW_LEASE_AFTER ?? given.CASOLA_LEASE_SECONDS * bounds.RENEW_SHARE,
    graceSeconds: given.CASOLA_SHUTDOWN_GRACE_PERIOD,
    noticeFile: given.CASOLA_NOTICE_FILE ?? null,
    metadataUrl: given.CASOLA_METADATA_URL.replace(/\/+$/, ''),
    /** The worker ends after this long without a queue, s; 0: never. */
    queueLostSeconds: given.WORKER_QUEUE_LOST_SECONDS,
    /** The price of the worker's machine, US dollars an hour; null: not known. */
    pricePerHour: given.WORKER_PRICE_PER_HOUR ?? null,
    /** The settings of backpressure; null: it is off. */
    backpressure: backpressureOf(given, capacity),
    /** The interval in which the events of streams are joined. */
    streamInterval: {
      minMs: given.CASOLA_STREAM_INTERVAL_MS,
      maxMs: streamIntervalMaxMs(given),
      rampEvents: given.CASOLA_STREAM_INTERVAL_RAMP_TOKENS,
      manyStreams: MANY_STREAMS,
    },
    /** Hosts beside our own that payloads and large results may use; null: any public host over https. */
    payloadHosts: payloadHostsOf(given),
    /** The folder that stores this worker's results until they are acknowledged. */
    spoolFolder: spoolFolder(given, workerId),
    /** The file that stores the id of this machine; null: there is no folder for it. */
    machineFile: machineFile(given),
    /**
     * A result that was sent is written to the disk if it is not acknowledged within this time, ms; undefined: the time
     * used with our own queue.
     */
    ackWaitMs: given.QUEUE === 'runpod' ? RUNPOD_ACK_WAIT_MS : undefined,
    /** An engine that has work and makes no progress for this long is suspected to hang, s; 0: never. */
    hangSeconds: given.ENGINE_HANG_SECONDS,
    /** An engine without work is asked for one token at this interval, s; 0: never. */
    canarySeconds: given.ENGINE_CANARY_SECONDS,
    /** The address at which this worker's own metrics and health are served; null: they are not. */
    localPort:
      given.WORKER_METRICS_PORT === undefined
        ? null
        : { host: given.WORKER_METRICS_HOST, port: given.WORKER_METRICS_PORT },
    /** The address to which snapshots of engine and GPU are sent; null: none are sent. */
    metricsUrl: given.CASOLA_METRICS_URL ?? null,
    /**
     * The socket that gives the engine its turns at a shared GPU, and the length of a turn while others wait; null: the
     * engine has a GPU of its own.
     */
    turns:
      given.ENGINE_TURNS === undefined
        ? null
        : { path: given.ENGINE_TURNS, awakeMs: given.ENGINE_AWAKE_SECONDS * 1000 },
    /** The number of adapters that the engine can have loaded at once. */
    adapterRoom: started?.adapters ?? adapterRoom(args),
    /** The revision of the model that the engine loads; null: the newest, or nobody knows. */
    modelRevision: started ? started.revision : modelRevision(args),
    /** The source and the folder of adapters; null: there are none. */
    adapterStore: adapterStoreOf(given, engine.adapters),
    /** Whether the answers of this worker are moved to other workers if it cannot finish them. */
    moves:
      given.MIGRATION === undefined
        ? describeEngine(engine.engine).goesOnFromIds
        : given.MIGRATION === 'exact',
    /** The settings of RunPod's queue; null: jobs come from our own queue. */
    runpodQueue: given.QUEUE === 'runpod' ? runpodQueueOf(given, workerId) : null,
    /** The form of answers to `runpod` jobs. */
    runpod: runpodOf(given),
    engine,
  };
}

function payloadHostsOf({ WORKER_PAYLOAD_HOSTS: hosts }: Own): string[] | null {
  return hosts ? hostsIn(hosts) : null;
}

/** Returns the adapter store, or null if there are no adapters, so that no folder is needed. */
function adapterStoreOf(given: Own, { length }: readonly unknown[]) {
  if (length === 0) return null;
  const home = given.HF_HOME ?? join(homeFolder('HF_HOME'), '.cache', 'huggingface');
  return {
    folder: join(home, 'worker-vllm', 'adapters'),
    endpoint: given.HF_ENDPOINT.replace(/\/+$/, ''),
    token: given.HF_TOKEN,
  };
}

function runpodQueueOf(given: Own, workerId: string): RunpodQueueSettings {
  return {
    at: platformOf(given),
    workerId: given.RUNPOD_POD_ID ?? workerId,
    apiKey: given.RUNPOD_AI_API_KEY,
    pingIntervalMs: given.RUNPOD_PING_INTERVAL,
    refreshes: given.RUNPOD_REFRESH_WORKER,
    webhookHosts: payloadHostsOf(given),
  };
}

/** Returns RunPod's platform or a stand-in. @throws UserError when nothing says where the platform is */
function platformOf(given: Own): RunpodQueueSettings['at'] {
  const { RUNPOD_TEST_INPUT: testInput, RUNPOD_SERVE_API: api } = given;
  if (testInput) return { testInput };
  if (api) {
    const { hostname: host, port } = new URL(`http://${api}`);
    return { host, port: Number(port || 80) };
  }
  const { RUNPOD_WEBHOOK_GET_JOB: take, RUNPOD_WEBHOOK_POST_OUTPUT: done } = given;
  const { RUNPOD_WEBHOOK_POST_STREAM: stream, RUNPOD_WEBHOOK_PING: ping = null } = given;
  if (take && done && stream) return { take, done, stream, ping };
  throw new UserError(
    'QUEUE=runpod needs RUNPOD_WEBHOOK_GET_JOB, RUNPOD_WEBHOOK_POST_OUTPUT and RUNPOD_WEBHOOK_POST_STREAM, ' +
      'which RunPod sets in the workers of an endpoint.',
  );
}

function runpodOf(given: Own): RunpodSettings {
  const { maxSize, minSize, growthFactor } = RUNPOD_DEFAULTS.batching;
  return {
    batching: {
      maxSize: given.DEFAULT_BATCH_SIZE ?? maxSize,
      minSize: given.DEFAULT_MIN_BATCH_SIZE ?? minSize,
      growthFactor: given.DEFAULT_BATCH_SIZE_GROWTH_FACTOR ?? growthFactor,
    },
    form: given.RUNPOD_OUTPUT,
    isRawOpenAI: given.RAW_OPENAI_OUTPUT,
    allowsOpenAIFormat: given.ALLOW_OPENAI_FORMAT,
    routes: inferenceRoutes(given.INFERENCE_ROUTES),
  };
}

function backpressureOf(given: Own, slots: number): BackpressureSettings | null {
  if (given.CASOLA_BACKPRESSURE_CHECK_INTERVAL === 0) return null;
  const pauseAboveWaiting = pauseThresholdOf(given, slots);
  return {
    checkIntervalSeconds: given.CASOLA_BACKPRESSURE_CHECK_INTERVAL,
    pauseAboveWaiting,
    resumeAtWaiting: given.CASOLA_BACKPRESSURE_RESUME_THRESHOLD ?? Math.floor(pauseAboveWaiting / 2),
  };
}

/** Returns a folder for each queue and worker id: a worker must not send results that another has left. */
function spoolFolder(given: Own, workerId: string): string {
  const base = given.WORKER_SPOOL_DIR ?? join(stateHome(given), 'worker-vllm', 'spool');
  const queue = `${new URL(given.CASOLA_WS_URL).host}_${given.CASOLA_QUEUE_ID}`;
  return resolve(base, folderName(queue), folderName(workerId));
}

/** Returns a path in this user's own state folder: a spool may lie on a volume that machines share. */
function machineFile(given: Own): string | null {
  try {
    return join(stateHome(given), 'worker-vllm', 'machine-id');
  } catch {
    return null;
  }
}

function stateHome({ XDG_STATE_HOME }: Own): string {
  return XDG_STATE_HOME ?? join(homeFolder('WORKER_SPOOL_DIR'), '.local', 'state');
}

/** Returns a readable folder name that differs for different names, whatever characters they hold. */
function folderName(name: string): string {
  const readable = name.replace(/[^\w.-]/g, '_').slice(0, 80);
  return `${readable}-${createHash('sha256').update(name).digest('hex').slice(0, 8)}`;
}
