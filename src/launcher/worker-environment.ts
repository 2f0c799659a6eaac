import type { Order } from '../scheduler/rpc.ts';
import type { WorkerRoad } from './ports.ts';

type LaunchOrder = Extract<Order, { kind: 'launch' }>;

/** The interval of heartbeats, s; it is short because the scheduler decides by them. */
const HEARTBEAT_SECONDS = '10';
/** A worker that has not reached its queue for this many seconds ends its machine itself. */
const QUEUE_LOST_SECONDS = '900';

/** Returns the whole environment of a launched worker's container. @param nowMs epoch ms */
export function workerEnvironment(
  order: LaunchOrder,
  { url, queueId }: WorkerRoad,
  env: NodeJS.ProcessEnv,
  nowMs: number,
): Record<string, string> {
  const { pool, config_id, name, token } = order;
  const secrets = pool.secrets.flatMap((secret) => (env[secret] ? [[secret, env[secret]]] : []));
  return {
    CASOLA_HEARTBEAT_INTERVAL: HEARTBEAT_SECONDS,
    CASOLA_LOGS_URL: `${url}/api/logs`,
    CASOLA_METRICS_URL: `${url}/api/metrics`,
    WORKER_QUEUE_LOST_SECONDS: QUEUE_LOST_SECONDS,
    ...pool.env,
    ...Object.fromEntries(secrets),
    CASOLA_WS_URL: url.replace(/^http/, 'ws'),
    CASOLA_API_URL: url,
    CASOLA_QUEUE_ID: queueId,
    CASOLA_CONFIG_ID: config_id,
    CASOLA_INSTANCE_ID: name,
    // Base workers read their id from this variable.
    CASOLA_WORKER_ID: name,
    CASOLA_MAX_JOBS: String(pool.slots),
    CASOLA_CREATED_AT: String(Math.floor(nowMs / 1000)),
    ENGINE: pool.engine,
    VLLM_MODEL: pool.model,
    ...(pool.adapters.length > 0 && { ENGINE_ADAPTERS: JSON.stringify(pool.adapters) }),
    ...(token === null ? {} : { CASOLA_API_TOKEN: token }),
  };
}

/** Returns the error for the operator when a secret is missing, or null. */
export function missingSecrets(order: LaunchOrder, env: NodeJS.ProcessEnv): string | null {
  const missing = order.pool.secrets.filter((name) => !env[name]);
  if (missing.length === 0) return null;
  return `the launcher's environment lacks ${missing.join(', ')}, which pool ${order.config_id} names under secrets: set it where the launcher runs, and start the launcher again`;
}
