import type { Core } from '../state/state.ts';
import { servesModel, type Worker } from '../state/worker.ts';

/**
 * Leaves stored jobs to the workers that serve their models. While a changed pool's workers are replaced, some serve
 * the earlier model and some the new one; a job that names a model of others waits for one of these.
 */

const NONE: ReadonlySet<string> = new Set();

/**
 * The queue checks again after this many ms the jobs that it left to other workers: those workers may be gone by then.
 */
const LOOK_AGAIN_MS = 2000;

/**
 * Returns the models that this worker does not serve, but other workers of its pool do that accept jobs or may be back
 * in a moment. Models that the pool was changed to since the worker was started count too: others will serve them.
 */
export function otherModels(core: Core, worker: Worker): ReadonlySet<string> {
  const { config_id, worker_id } = worker.session;
  // A worker that does not report its models may serve any.
  if (worker.models.length === 0) return NONE;
  const start = core.starts.of(config_id);
  const coming = start?.outdated.includes(worker_id) ? start.names : [];
  const served = core.workers.modelsOf(config_id, core.now());
  const others = [...served, ...coming].filter((model) => !servesModel(worker, model));
  return others.length === 0 ? NONE : new Set(others);
}

/** Notes that jobs of this pool were left to other workers, so that the queue checks them again soon. */
export function lookAgain({ ready, now }: Core, configId: string): void {
  ready.leftToOthers.add(configId);
  ready.looksAt ??= now() + LOOK_AGAIN_MS;
}

/** Makes the jobs that were left to other workers, which may be gone now, ready for every worker of their pools. */
export function takeWhatWasLeft({ ready, now }: Core): void {
  if (ready.looksAt === null || ready.looksAt > now()) return;
  ready.looksAt = null;
  for (const configId of ready.leftToOthers) ready.pool(configId);
  ready.leftToOthers.clear();
}
