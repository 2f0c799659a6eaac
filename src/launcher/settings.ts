import { z } from 'zod';
import type { TokenEntry } from '../gateway/auth.ts';
import { logVariables, readEnvironment, UserError, variable } from '../process/index.ts';
import { loadTokens } from './tokens.ts';

/** Where a queue listens and keeps its state, and who may use it. */
export interface QueueSettings {
  host: string;
  port: number;
  stateDir: string;
  tokens: TokenEntry[];
  /** Variables of the queue object that were set here. */
  objectSettings: Record<string, string>;
}

/** Given on the command line; goes before the environment. */
export interface QueueOptions {
  host?: string;
  port?: string;
  state?: string;
}

const TEN_YEARS = 10 * 365 * 86_400;

const QueueVariables = z.object({
  ...logVariables,
  QUEUE_HOST: variable.text().default('127.0.0.1'),
  // 0 lets the system choose a free one.
  QUEUE_PORT: variable.integer(0, 65_535).default(8788),
  WORKER_VLLM_STATE: variable.text().default('.worker-vllm'),
  CASOLA_LEASE_SECONDS: variable.seconds(1).optional(),
  CASOLA_RECONNECT_GRACE: variable.seconds(0).optional(),
  CASOLA_PING_SECONDS: variable.seconds(1).optional(),
  QUEUE_RETENTION_SECONDS: variable.seconds(1, TEN_YEARS).optional(),
  QUEUE_MAX_PENDING: variable.integer(1).optional(),
  QUEUE_MAX_PENDING_PER_TENANT: variable.integer(1).optional(),
  QUEUE_MAX_WAITING: variable.integer(1).optional(),
  QUEUE_MAX_WAITING_PER_TENANT: variable.integer(1).optional(),
});

/**
 * Settings from the command line and the environment.
 * @throws UserError for bad values, and for an address beyond this machine without tokens
 */
export async function readQueueSettings(
  options: QueueOptions,
  env: NodeJS.ProcessEnv,
): Promise<QueueSettings> {
  const given = readEnvironment(QueueVariables, {
    ...env,
    ...(options.host !== undefined && { QUEUE_HOST: options.host }),
    ...(options.port !== undefined && { QUEUE_PORT: options.port }),
    ...(options.state !== undefined && { WORKER_VLLM_STATE: options.state }),
  });
  const settings: QueueSettings = {
    host: given.QUEUE_HOST,
    port: given.QUEUE_PORT,
    stateDir: given.WORKER_VLLM_STATE,
    tokens: await loadTokens(given.WORKER_VLLM_STATE, env),
    objectSettings: objectSettingsOf(given),
  };
  if (settings.tokens.length === 0 && !isLoopback(settings.host)) {
    throw new UserError(
      `A queue without tokens listens on this machine only, not on ${settings.host}: anybody could use it. ` +
        'Make tokens first: "npx worker-vllm token --scope worker" for workers, "npx worker-vllm token --scope submit" for callers; or set QUEUE_TOKENS.',
    );
  }
  return settings;
}

function objectSettingsOf(given: z.infer<typeof QueueVariables>): Record<string, string> {
  const settings = {
    LEASE_SECONDS: given.CASOLA_LEASE_SECONDS,
    RECONNECT_GRACE_SECONDS: given.CASOLA_RECONNECT_GRACE,
    PING_SECONDS: given.CASOLA_PING_SECONDS,
    RETENTION_SECONDS: given.QUEUE_RETENTION_SECONDS,
    MAX_PENDING: given.QUEUE_MAX_PENDING,
    MAX_PENDING_PER_TENANT: given.QUEUE_MAX_PENDING_PER_TENANT,
    MAX_WAITING: given.QUEUE_MAX_WAITING,
    MAX_WAITING_PER_TENANT: given.QUEUE_MAX_WAITING_PER_TENANT,
  };
  const set = Object.entries(settings).filter(([, value]) => value !== undefined);
  return Object.fromEntries(set.map(([name, value]) => [name, String(value)]));
}

/** The gateway's variables (src/gateway/env.ts). */
export function bindingsOf(settings: QueueSettings): Record<string, string> {
  return { TOKENS: JSON.stringify(settings.tokens), ...settings.objectSettings };
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d+){3}$/.test(host);
}
