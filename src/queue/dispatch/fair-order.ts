import type { FairLine, Share } from '../../admission/fair-line.ts';
import type { Job, WaitingJob } from '../job.ts';
import type { Core } from '../state/state.ts';
import { servesModel, type Worker } from '../state/worker.ts';
import { isHeldBack } from './canaries.ts';
import { olderOf } from './choose.ts';
import { mayBeGiven } from './equals.ts';
import { mayHaveAgain } from './retries.ts';

/**
 * Finds the jobs that may be given to a worker next: of the highest priority there is, those of the tenant that was
 * served least (admission/fair-line.ts), the oldest first. Fairness comes before the warmth of prompts, which chooses
 * within this list.
 */

/**
 * Tenants whose counters exceed the smallest by no more than this, in weighted tokens, count as served alike, so that
 * warmth has jobs to choose from where each tenant has few. Two tenants may come apart by that much more.
 */
export const WARM_SLACK = 2000;

/**
 * Returns the jobs that go first, one of which is to be chosen; a stored job that goes first is returned alone.
 * @param most the most waiting jobs to return
 * @param isOpen whether jobs of this priority may begin now
 */
export function firstJobs(
  core: Core,
  worker: Worker,
  most: number,
  isOpen: (priority: number) => boolean,
): Job[] {
  core.stored.pending.load();
  if (core.backlog.size === 0) return [];
  const { config_id } = worker.session;
  const models = new Set([null, config_id, ...worker.models]);
  const pools = new Set([config_id, ...core.backlog.poolsOf(models)]);
  for (const priority of prioritiesOf(core, pools)) {
    if (!isOpen(priority)) return [];
    let first: Job[] = [];
    for (const pool of pools) {
      const jobs = fairJobs(core, worker, models, { config_id: pool, priority }, most);
      // The counters of different pools cannot be compared, so age decides between pools.
      if (jobs.length > 0 && olderOf(first[0] ?? null, jobs[0]!) === jobs[0]) first = jobs;
    }
    if (first.length > 0) return first;
  }
  return [];
}

/** Returns the priorities of the jobs that wait in these pools, the highest first. */
function prioritiesOf({ backlog }: Core, pools: Iterable<string>): number[] {
  const found = new Set<number>();
  for (const pool of pools)
    for (const [priority, line] of backlog.lines().get(pool) ?? []) if (line.size > 0) found.add(priority);
  return found.size < 2 ? [...found] : [...found].sort((one, other) => other - one);
}

interface Place {
  config_id: string;
  priority: number;
}

function fairJobs(
  core: Core,
  worker: Worker,
  models: Iterable<string | null>,
  place: Place,
  most: number,
): Job[] {
  const line: FairLine<WaitingJob> = core.backlog.line(place);
  const found: Job[] = [];
  let least = Number.POSITIVE_INFINITY;
  for (const share of line.inOrder()) {
    if (share.counter > least + WARM_SLACK) break;
    const isWanted = (job: WaitingJob) =>
      !worker.declined.has(job.id) &&
      mayBeGiven(core, worker, job) &&
      mayHaveAgain(core, job, worker) &&
      !isHeldBack(core, worker, job);
    const waiting = share.firstFor(models, most - found.length, isWanted);
    if (found.length === 0) {
      const stored = nextStored(core, worker, place, share);
      if (stored !== null && olderOf(stored, waiting[0] ?? null) === stored) return [stored];
      if (waiting.length > 0) least = share.counter;
    }
    found.push(...waiting);
    if (found.length === most) break;
  }
  return found;
}

/**
 * Returns the next stored job for a worker. Stored jobs are only for workers of their pool, and there only for those
 * that serve the model that the job names.
 */
function nextStored(core: Core, worker: Worker, place: Place, { tenant, stored }: Share<WaitingJob>) {
  const { config_id } = worker.session;
  if (stored === 0 || place.config_id !== config_id) return null;
  const others = otherModels(core, worker);
  const next = core.stored.nextReady({ ...place, tenant }, stored, worker.declined, others);
  if (next === null && others.size > 0) lookAgain(core, config_id);
  return next;
}

/*
 * Stored jobs are left to the workers that serve their models. While a changed pool's workers are replaced, some serve
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
function lookAgain({ ready, now }: Core, configId: string): void {
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
