import type { Core } from '../state/state.ts';
import { servesModel, type Worker } from '../state/worker.ts';

/**
 * Stored jobs are for their pool, whose workers may serve different models: while a changed pool's workers are replaced,
 * some serve the model before and some the new one. A job that names a model of others waits for one of these.
 */

const NONE: ReadonlySet<string> = new Set();

/** How long until jobs that were left to others are looked at again: those may be gone by then, ms. */
const LOOK_AGAIN_MS = 2000;

/**
 * Models that this worker does not serve, but others of its pool that take jobs, or may be back in a moment. Those that
 * the pool was changed to since the worker was started will be served by others.
 */
export function otherModels(core: Core, worker: Worker): ReadonlySet<string> {
  const { config_id, worker_id } = worker.session;
  // Where a worker does not tell, anything may be its.
  if (worker.models.length === 0) return NONE;
  const start = core.starts.of(config_id);
  const coming = start?.outdated.includes(worker_id) ? start.names : [];
  const served = core.workers.modelsOf(config_id, core.now());
  const others = [...served, ...coming].filter((model) => !servesModel(worker, model));
  return others.length === 0 ? NONE : new Set(others);
}

/** Jobs of this pool were left to other workers, which is looked at again soon. */
export function lookAgain({ ready, now }: Core, configId: string): void {
  ready.leftToOthers.add(configId);
  ready.looksAt ??= now() + LOOK_AGAIN_MS;
}

/** Lets every worker have the jobs that were left to others which are gone now. */
export function takeWhatWasLeft({ ready, now }: Core): void {
  if (ready.looksAt === null || ready.looksAt > now()) return;
  ready.looksAt = null;
  for (const configId of ready.leftToOthers) ready.pool(configId);
  ready.leftToOthers.clear();
}
