import { type Cost, NO_COST } from '../../admission/job.ts';
import type { PoolChoice, PoolStart } from '../../fleet/rpc.ts';
import { listNames, type RequestCost } from '../../protocol/index.ts';
import { servesModel } from './worker.ts';
import type { Workers } from './workers.ts';

/** The members of the core that say which pools there are. */
interface Pools {
  workers: Workers;
  starts: PoolStarts;
  now(): number;
}

/**
 * Returns the pool that a request for this model is for, by the workers that are connected or expected back any moment,
 * and by the pools that the scheduler starts workers for. "default" and no name mean the only pool there is. Only where
 * none of these has the model does the gateway ask the fleet object, which knows earlier pools too.
 * @param model null if the request names none
 * @returns null if the fleet object is to be asked
 */
export function livePool(core: Pools, model: string | null): PoolChoice | null {
  const workers = core.workers.present(core.now());
  // A model may be called "default" itself.
  const named =
    model === null
      ? null
      : (workers.find((worker) => servesModel(worker, model))?.session ?? core.starts.named(model));
  if (named) return { kind: 'pool', config_id: named.config_id };
  if (isNamed(model)) return null;
  const starts = core.starts.all();
  const pools = [
    ...new Set([...workers.map(({ session }) => session), ...starts].map((one) => one.config_id)),
  ];
  if (pools.length <= 1) return pools[0] === undefined ? null : { kind: 'pool', config_id: pools[0] };
  const models = [
    ...workers.flatMap(({ models, session }) => (models.length > 0 ? models : [session.config_id])),
    ...starts.flatMap(({ names, config_id }) => (names.length > 0 ? names : [config_id])),
  ];
  return { kind: 'ambiguous', models: listNames(models), pools: listNames(pools) };
}

/** Whether a request names a model, rather than meaning the only one there is. */
export function isNamed(model: string | null): model is string {
  return model !== null && model !== 'default';
}

/**
 * Returns what a job may cost, and the model that answers it: where the job names none or only its pool, that is what
 * the engines of the pool serve.
 * @param cost as the gateway tells it; left out: nothing is known of it
 * @param configId the job's pool; null if none is known
 */
export function costOfModel(
  core: Pools,
  model: string | null,
  cost: RequestCost | undefined,
  configId: string | null,
): Cost {
  if (isNamed(model) && model !== configId) return { ...(cost ?? NO_COST), model };
  const workers = core.workers.present(core.now()).filter(({ session }) => session.config_id === configId);
  const served = workers.find(({ models }) => models.length > 0)?.models[0];
  return { ...(cost ?? NO_COST), model, ...(served !== undefined && { served }) };
}

/**
 * Pools that the scheduler starts workers for, as the fleet object last reported. They are in memory alone: the fleet
 * object reports them with every answer to a report, and with the pool of a model that no connected worker serves.
 */
export class PoolStarts {
  #byId = new Map<string, PoolStart>();
  #text = '';
  /** Whether the fleet object has told of all pools since this object started: until then one may be unknown. */
  areKnown = false;

  /** Replaces all pools. @returns whether they differ from those before */
  replace(starts: readonly PoolStart[]): boolean {
    this.areKnown = true;
    const text = JSON.stringify(starts);
    if (text === this.#text) return false;
    this.#text = text;
    this.#byId = new Map(starts.map((start) => [start.config_id, start]));
    return true;
  }

  /** Adds a pool that the fleet object has just reported. */
  add(start: PoolStart): void {
    this.#byId.set(start.config_id, start);
    this.#text = '';
  }

  all(): PoolStart[] {
    return [...this.#byId.values()];
  }

  of(configId: string): PoolStart | null {
    return this.#byId.get(configId) ?? null;
  }

  /** Returns the pool that callers mean by this name. */
  named(model: string): PoolStart | null {
    return this.of(model) ?? this.all().find(({ names }) => names.includes(model)) ?? null;
  }
}
