import { createHash } from 'node:crypto';
import { homedir, hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import {
  ENGINE_SECRETS,
  type EngineConfiguration,
  engineConfiguration,
  engineVariables,
} from '../engine/configuration.ts';
import { containerVariables, instanceIdOf, readEnvironment, variable } from '../process/index.ts';
import { limits } from '../protocol/index.ts';
import type { BackpressureSettings } from './backpressure.ts';

export interface WorkerConfiguration {
  wsUrl: string;
  queueId: string;
  configId: string;
  /** Also the worker id. */
  instanceId: string;
  host: string;
  apiUrl: string | undefined;
  token: string | undefined;
  heartbeatIntervalSeconds: number;
  capacity: number;
  leaseSeconds: number;
  renewAfterSeconds: number;
  graceSeconds: number;
  /** Null: off. */
  backpressure: BackpressureSettings | null;
  /** Hosts beside our own for payloads and large results; null: any over https. */
  payloadHosts: readonly string[] | null;
  /** This worker's own. */
  spoolFolder: string;
  /** 0: finished results live in memory only. */
  spoolBytes: number;
  /** An engine with work that makes nothing this long is suspected to hang; 0: never. */
  hangSeconds: number;
  /** An engine without work is asked for a token this often; 0: never. */
  canarySeconds: number;
  /** Where snapshots of engine and GPU go; null: nowhere. */
  metricsUrl: string | null;
  engine: EngineConfiguration;
}

const HOST_LIST = 'expected host names separated by commas, such as files.example.com,*.example.org';

const variables = {
  ...containerVariables,
  CASOLA_WS_URL: variable.url('ws:', 'wss:').describe('address of the queue, e.g. ws://127.0.0.1:8788'),
  CASOLA_API_URL: variable.url('http:', 'https:').optional(),
  CASOLA_HEARTBEAT_INTERVAL: variable.seconds(1).default(60),
  CASOLA_MAX_JOBS: variable.integer(1, 100_000).optional(),
  CASOLA_CAPACITY: variable.integer(1, 100_000).optional(),
  CASOLA_LEASE_SECONDS: variable.seconds(1).default(limits.LEASE_SECONDS),
  CASOLA_RENEW_LEASE_AFTER: variable.seconds(0.1).optional(),
  CASOLA_SHUTDOWN_GRACE_PERIOD: variable.seconds(0).default(5),
  CASOLA_BACKPRESSURE_CHECK_INTERVAL: variable.seconds(0).default(5),
  CASOLA_BACKPRESSURE_PAUSE_THRESHOLD: variable.integer(0).default(0),
  CASOLA_BACKPRESSURE_RESUME_THRESHOLD: variable.integer(0).default(0),
  CASOLA_BACKPRESSURE_KV_CACHE: variable.share().default(0.95),
  ENGINE_HANG_SECONDS: variable.seconds(0).default(120),
  ENGINE_CANARY_SECONDS: variable.seconds(0).default(0),
  WORKER_PAYLOAD_HOSTS: variable.text().refine(isHostList, { error: HOST_LIST }).optional(),
  WORKER_SPOOL_DIR: variable.text().optional(),
  WORKER_SPOOL_BYTES: variable.integer(0).default(1024 ** 3),
  XDG_STATE_HOME: variable.text().optional(),
};
type Own = z.infer<z.ZodObject<typeof variables>>;

const SECRETS = ['CASOLA_API_TOKEN', ...ENGINE_SECRETS];

/**
 * @throws UserError naming every variable that is missing or wrong
 */
export function readWorkerConfiguration(env: NodeJS.ProcessEnv): WorkerConfiguration {
  const schema = withCrossChecks(z.object({ ...engineVariables(env), ...variables }));
  const given = readEnvironment(schema, env, SECRETS);
  const workerId = instanceIdOf(given);
  return {
    wsUrl: given.CASOLA_WS_URL.replace(/\/+$/, ''),
    queueId: given.CASOLA_QUEUE_ID,
    configId: given.CASOLA_CONFIG_ID,
    instanceId: workerId,
    host: hostname(),
    apiUrl: given.CASOLA_API_URL?.replace(/\/+$/, ''),
    token: given.CASOLA_API_TOKEN,
    heartbeatIntervalSeconds: given.CASOLA_HEARTBEAT_INTERVAL,
    capacity: given.CASOLA_MAX_JOBS ?? given.CASOLA_CAPACITY ?? 1,
    leaseSeconds: given.CASOLA_LEASE_SECONDS,
    renewAfterSeconds: given.CASOLA_RENEW_LEASE_AFTER ?? given.CASOLA_LEASE_SECONDS * limits.RENEW_SHARE,
    graceSeconds: given.CASOLA_SHUTDOWN_GRACE_PERIOD,
    backpressure: backpressureOf(given),
    payloadHosts: given.WORKER_PAYLOAD_HOSTS ? hostsIn(given.WORKER_PAYLOAD_HOSTS) : null,
    spoolFolder: spoolFolder(given, workerId),
    spoolBytes: given.WORKER_SPOOL_BYTES,
    hangSeconds: given.ENGINE_HANG_SECONDS,
    canarySeconds: given.ENGINE_CANARY_SECONDS,
    metricsUrl: given.CASOLA_METRICS_URL ?? null,
    engine: engineConfiguration(given),
  };
}

function backpressureOf(given: Own): BackpressureSettings | null {
  if (given.CASOLA_BACKPRESSURE_CHECK_INTERVAL === 0) return null;
  return {
    checkIntervalSeconds: given.CASOLA_BACKPRESSURE_CHECK_INTERVAL,
    pauseAboveWaiting: given.CASOLA_BACKPRESSURE_PAUSE_THRESHOLD,
    resumeAtWaiting: given.CASOLA_BACKPRESSURE_RESUME_THRESHOLD,
    kvCacheLimit: given.CASOLA_BACKPRESSURE_KV_CACHE,
  };
}

/** One for each queue and worker id: what one worker left is nothing that another should send. */
function spoolFolder(given: Own, workerId: string): string {
  const state = given.XDG_STATE_HOME ?? join(homedir(), '.local', 'state');
  const base = given.WORKER_SPOOL_DIR ?? join(state, 'worker-vllm', 'spool');
  const queue = `${new URL(given.CASOLA_WS_URL).host}_${given.CASOLA_QUEUE_ID}`;
  return resolve(base, folderName(queue), folderName(workerId));
}

/** Readable, and different for different names whatever characters they hold. */
function folderName(name: string): string {
  const readable = name.replace(/[^\w.-]/g, '_').slice(0, 80);
  return `${readable}-${createHash('sha256').update(name).digest('hex').slice(0, 8)}`;
}

function hostsIn(list: string): string[] {
  return list.split(',').map((host) => host.trim());
}

function isHostList(list: string): boolean {
  return hostsIn(list).every((host) => /^(\*\.)?[\w.[\]:-]+$/.test(host));
}

/** Checks of one variable against another; they run even when others are wrong, so all faults show at once. */
function withCrossChecks<S extends z.ZodObject<typeof variables>>(schema: S): S {
  const always = { when: () => true };
  return schema
    .refine((given) => !bothGiven(given) || given.CASOLA_CAPACITY === given.CASOLA_MAX_JOBS, {
      path: ['CASOLA_CAPACITY'],
      error: 'is another name of CASOLA_MAX_JOBS, which says something else; set only one',
      ...always,
    })
    .refine((given) => !((given.CASOLA_RENEW_LEASE_AFTER ?? 0) >= given.CASOLA_LEASE_SECONDS), {
      path: ['CASOLA_RENEW_LEASE_AFTER'],
      error: 'expected fewer seconds than CASOLA_LEASE_SECONDS, or the lease runs out before it is renewed',
      ...always,
    })
    .refine(
      (given) => !(given.CASOLA_BACKPRESSURE_RESUME_THRESHOLD > given.CASOLA_BACKPRESSURE_PAUSE_THRESHOLD),
      {
        path: ['CASOLA_BACKPRESSURE_RESUME_THRESHOLD'],
        error: 'expected no more than CASOLA_BACKPRESSURE_PAUSE_THRESHOLD',
        ...always,
      },
    );
}

function bothGiven(given: Own): boolean {
  return given.CASOLA_CAPACITY !== undefined && given.CASOLA_MAX_JOBS !== undefined;
}
