import type * as z from 'zod';
import { listNames, shortName } from '../../protocol/index.ts';
import { HttpError } from '../errors.ts';
import type { ModelView, WorkerView } from '../fleet-views.ts';
import type { RunpodWorkers } from '../openapi/answers.ts';

/**
 * Returns the pool that an endpoint stands for: the pool's own name, a model that it serves, or "default" for the only
 * one.
 * @throws HttpError 404 that lists the endpoints there are
 */
export function poolOfEndpoint(endpoint: string, models: readonly ModelView[]): string {
  const found = models.find(({ id, config_id }) => id === endpoint || config_id === endpoint);
  if (found) return found.config_id;
  const available = models.filter((model) => model.available);
  const pools = [...new Set((available.length > 0 ? available : models).map(({ config_id }) => config_id))];
  if (endpoint === 'default' && pools.length === 1) return pools[0]!;
  throw unknownEndpoint(endpoint, pools.length > 0 ? `Endpoints there are: ${listNames(pools)}.` : null);
}

/** @param there the sentence that lists the endpoints; null where none are known */
export function unknownEndpoint(endpoint: string, there: string | null): HttpError {
  const known = there ?? 'No worker is known here.';
  return new HttpError(404, `There is no endpoint "${shortName(endpoint)}". ${known}`, 'endpoint_not_found');
}

/** Returns the numbers of one pool's workers by RunPod's states. */
export function runpodWorkers(
  configId: string,
  workers: readonly WorkerView[],
): z.infer<typeof RunpodWorkers> {
  const own = workers.filter((worker) => worker.config_id === configId);
  const connected = own.filter(({ state }) => state !== 'disconnected');
  const gone = own.filter(({ state }) => state === 'disconnected');
  const idle = connected.filter(({ state, running }) => state === 'ready' && running === 0).length;
  return {
    idle,
    initializing: gone.filter(({ status }) => status === 'starting').length,
    ready: connected.filter(({ state }) => state === 'ready').length,
    running: connected.filter(({ running }) => running > 0).length,
    throttled: connected.filter(({ state }) => state === 'paused').length,
    unhealthy: gone.filter(({ status }) => status !== null && BROKEN.has(status)).length,
  };
}

/** The last states of workers that did not end normally. */
const BROKEN = new Set(['error', 'failed', 'fatal']);
