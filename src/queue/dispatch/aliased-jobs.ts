import { targetsOf } from '../../aliases/resolve.ts';
import type { PoolChoice } from '../../fleet/rpc.ts';
import type { StoredJob } from '../job.ts';
import { isUnserved } from '../rpc.ts';
import type { Core, Timed } from '../state/state.ts';
import { resolve } from '../state/steps.ts';
import { isLeaving, servesModel, type Worker } from '../state/worker.ts';
import { aliasedOfPool } from '../store/pending-table.ts';

/*
 * A stored job for an alias waits in the pool of the model that its alias meant when it was submitted, and goes to the
 * one that it means when the job is sent. Where a pool has workers, the dispatch pass finds that out; pools without any
 * are looked through for such jobs.
 */

/** Pools without workers are looked through this often, ms, while jobs for aliases wait in one, or after a change. */
const LOOK_MS = 5000;
/** The most jobs of one pool that are looked at in one event, so that other work gets its turn. */
const BITE_JOBS = 500;

/** Moves a job that is about to be sent to the pool that its alias means now. @returns whether it was moved */
export function moved(core: Core, job: StoredJob): boolean {
  const { alias } = job.extras;
  if (alias?.moves === undefined || !core.aliases.has(alias.name)) return false;
  const asked = { model: alias.name, ...alias.moves, tenant: job.tenant, unknown: NOWHERE };
  const resolved = resolve(core, asked, job.id);
  if (isUnserved(resolved) || resolved.choice.kind !== 'pool' || resolved.step === null) return false;
  const { config_id } = resolved.choice;
  const model = job.model === null ? null : resolved.model;
  if (config_id === job.config_id && model === job.model) return false;
  const { cost } = job.extras;
  core.stored.move(job, {
    config_id,
    model,
    extras: {
      ...job.extras,
      alias: { ...alias, fell: resolved.step.fell },
      ...(cost && { cost: { ...cost, model: resolved.model } }),
    },
  });
  return true;
}

/**
 * Gives a job that stays in its pool the model of its alias that the worker serves, where the worker does not serve the
 * job's own: no other worker of the pool does either, or the job would not have come to this one.
 * @returns whether the job has another model now, with which it is ready anew
 */
export function renamed(core: Core, worker: Worker, job: StoredJob): boolean {
  const { alias, cost } = job.extras;
  if (alias === undefined || alias.moves !== undefined || job.payload_file !== null) return false;
  if (!core.aliases.has(alias.name) || (job.model !== null && servesModel(worker, job.model))) return false;
  const targets = targetsOf(core.aliases.table, alias.name);
  // A worker that does not report its models may serve any. The engine refuses a model that it does not serve.
  const model = targets.find((one) => servesModel(worker, one)) ?? job.model ?? targets[0] ?? null;
  if (model === job.model) return false;
  core.stored.move(job, {
    config_id: job.config_id,
    model,
    extras: {
      ...job.extras,
      alias: { ...alias, fell: job.model === null ? alias.fell : 'no_worker' },
      ...(cost && { cost: { ...cost, model } }),
    },
  });
  return true;
}

/** A model that neither a worker nor the scheduler knows counts as absent: the fleet object is not asked for it. */
const NOWHERE: PoolChoice = { kind: 'unknown', models: '', pools: '' };

/** Looks through pools without workers for jobs whose aliases lead elsewhere now. */
export const ALIASED_JOBS: Timed = { dueAt: nextLook, run: look };

/** Nothing is moved before the fleet object has told which pools can be started: a pool may only be unknown yet. */
function nextLook(core: Core): number | null {
  const { looked, isEmpty } = core.aliases;
  if (isEmpty || !core.starts.areKnown || core.stored.pending.all === 0) return null;
  if (looked === null) return core.now();
  return looked.foundAny || looked.state !== stateOf(core) ? looked.at + LOOK_MS : null;
}

function look(core: Core): void {
  const due = nextLook(core);
  if (due === null || due > core.now()) return;
  const staffed = new Set(
    core.workers.all().flatMap((worker) => (isLeaving(worker) ? [] : worker.session.config_id)),
  );
  const before = core.aliases.looked?.stayed;
  const stayed = new Map<string, number>();
  let foundAny = false;
  for (const configId of [...core.stored.pending.priorities().keys()].filter((id) => !staffed.has(id))) {
    const skipped = before?.get(configId) ?? 0;
    const jobs = aliasedOfPool(core.sql, configId, BITE_JOBS, skipped);
    const staying = jobs.filter((job) => !moved(core, job)).length;
    if (jobs.length === BITE_JOBS) stayed.set(configId, skipped + staying);
    foundAny ||= jobs.length + skipped > 0;
  }
  core.aliases.looked = { state: stateOf(core), at: core.now(), foundAny, stayed };
}

/** Returns what tells whether anything has changed that decides where aliases lead, or that jobs have become ready. */
function stateOf({ aliases, workers, ready }: Core): string {
  return `${aliases.changes} ${workers.changes} ${ready.readied}`;
}
