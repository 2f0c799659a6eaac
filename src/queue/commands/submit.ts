import { pendingFull } from '../../admission/fullness.ts';
import { targetsOf } from '../../aliases/resolve.ts';
import { isSettled, outsideStrings, shortName } from '../../protocol/index.ts';
import { webhookProblem } from '../../settings/webhooks.ts';
import { emit } from '../events/projection.ts';
import type { StoredJob } from '../job.ts';
import { Listeners } from '../projections/listeners.ts';
import {
  extrasOf,
  type HeardAnswer,
  isSamePayload,
  isUnserved,
  type JobAlias,
  maySee,
  type SubmitAnswer,
  type SubmitJob,
  type Unserved,
  unservedOf,
} from '../rpc.ts';
import { add } from '../state/pending.ts';
import { costOfModel, isNamed, livePool } from '../state/pools.ts';
import type { Core } from '../state/state.ts';
import { jobAlias, knownPool, resolve, stepIn, type TakenStep } from '../state/steps.ts';
import { freeSlots, type Serving, servesModel } from '../state/worker.ts';
import { viewOf } from '../store/job-view.ts';
import { readPayload } from '../store/jobs-table.ts';

/** The message of a conflict, even with another tenant's job: the caller learns only that the id is taken. */
const OTHER_PAYLOAD = 'exists with another payload';

/**
 * Stores jobs, all in one commit. A known id with the same payload is answered with the existing job; with another
 * payload it is a conflict. An answer for several jobs leaves their results out, since a thousand of them would not
 * fit: callers read them one by one.
 * @param ids new ids for jobs that bring none, in order
 * @returns the answers, to be made when the jobs are dispatched: they tell the state of each when the commit is done
 */
export function submit(
  core: Core,
  jobs: readonly SubmitJob[],
  ids: readonly string[],
): (() => SubmitAnswer | Unserved)[] {
  return takeEach(core, jobs, ids, (taken) => () => {
    if (!('row' in taken)) return taken;
    const { row, created, has_file } = taken;
    const job = created
      ? viewOf(core.sql, core.stored.find(row.id) ?? row)
      : viewOf(core.sql, row, jobs.length === 1);
    return { ok: true, job, created, has_file };
  });
}

/**
 * Stores jobs for a listener, which is told when its jobs end, so the answers leave out their state.
 * @returns the answers
 */
export function submitAndListen(
  core: Core,
  jobs: readonly SubmitJob[],
  ids: readonly string[],
  listener: string,
): (HeardAnswer | Unserved)[] {
  return takeEach(core, jobs, ids, (taken) => {
    if (!('row' in taken)) return taken;
    const { row, created, has_file } = taken;
    core.projections.get(Listeners).listen(listener, row.id, isSettled(row.state));
    return { ok: true, job: { id: row.id }, created, has_file };
  });
}

/** A submitted job that is stored, now or since before. */
interface Taken {
  row: StoredJob;
  created: boolean;
  /** True if the job uses the file that came with the submission. */
  has_file: boolean;
}

function takeEach<T>(
  core: Core,
  jobs: readonly SubmitJob[],
  ids: readonly string[],
  answer: (taken: Taken | Rejection | Unserved) => T,
): T[] {
  const placed = new Placed(core);
  return jobs.map((job, index) => answer(take(core, job, ids[index]!, placed)));
}

/** Stores one submitted job, unless it is known or rejected. @param newId the id for a job that brings none */
function take(core: Core, job: SubmitJob, newId: string, placed: Placed): Taken | Rejection | Unserved {
  const existing = existingJob(core, job);
  if (existing) return repeated(core, existing, job);
  const pool = admit(core, job, job.id ?? newId, placed);
  if (!pool.ok) return pool;
  const row = insert(core, job, job.id ?? newId, pool);
  placed.add(pool.config_id, row.tenant);
  return { row, created: true, has_file: true };
}

/**
 * Counts the jobs of one submission for which there are free slots: the dispatch pass that follows sends them, so they
 * do not count as pending.
 */
class Placed {
  readonly #core: Core;
  readonly #free = new Map<string, number>();
  readonly #ofPool = new Map<string, number>();
  readonly #ofTenant = new Map<string, number>();

  constructor(core: Core) {
    this.#core = core;
  }

  add(configId: string, tenant: string | null): void {
    if (this.ofPool(configId) >= this.#freeSlots(configId)) return;
    add(this.#ofPool, configId, 1);
    if (tenant !== null) add(this.#ofTenant, tenant, 1);
  }

  ofPool(configId: string): number {
    return this.#ofPool.get(configId) ?? 0;
  }

  ofTenant(tenant: string): number {
    return this.#ofTenant.get(tenant) ?? 0;
  }

  #freeSlots(configId: string): number {
    const known = this.#free.get(configId);
    if (known !== undefined) return known;
    let free = 0;
    for (const worker of this.#core.workers.all())
      if (worker.session.config_id === configId) free += freeSlots(worker);
    this.#free.set(configId, free);
    return free;
  }
}

function existingJob(core: Core, job: SubmitJob): StoredJob | null {
  return job.id === undefined ? null : core.stored.find(job.id);
}

/** Returns the pool whose workers may take the job, or why it is rejected. */
function admit(core: Core, job: SubmitJob, id: string, placed: Placed): Pool {
  // A request in progress may not share the id, since settlements name only the id.
  const request = job.id === undefined ? null : core.waiting.find(job.id);
  if (request) {
    const isOwn = maySee(job.tenant ?? null, request.tenant);
    return conflict(request.id, isOwn ? 'is a request in progress' : OTHER_PAYLOAD);
  }
  const problem = job.webhook === undefined ? null : webhookProblem(job.webhook, core.settings.webhook_hosts);
  if (problem !== null) return { ok: false, reason: 'invalid_webhook', message: problem };
  const pool = choosePool(core, job, id);
  return pool.ok ? (rejectWhenFull(core, pool.config_id, job.tenant ?? null, placed) ?? pool) : pool;
}

function insert(
  core: Core,
  job: SubmitJob,
  id: string,
  { config_id, model, alias }: Extract<Pool, { ok: true }>,
): StoredJob {
  const now = core.now();
  core.admission.book.report(job);
  const deadlineAt = job.deadline_seconds === undefined ? null : now + job.deadline_seconds * 1000;
  const row = core.stored.insert({
    id,
    job_type: job.job_type,
    config_id,
    priority: job.priority,
    max_attempts: job.max_attempts,
    payload: job.payload_file === undefined ? job.payload : null,
    payload_file: job.payload_file ?? null,
    created_at: now,
    deadline_at: deadlineAt,
    tenant: job.tenant ?? null,
    token_name: job.token_name ?? null,
    stream: job.stream ? 1 : 0,
    extras: extrasOf(job, job.limits ? costOfModel(core, model, job.cost, config_id) : null, alias),
    model,
  });
  emit(core, row, 'submitted');
  return row;
}

/** Rejects a job where the pool or the tenant has too many pending jobs. Jobs for which a slot is free do not count. */
function rejectWhenFull(
  core: Core,
  configId: string,
  tenant: string | null,
  placed: Placed,
): Rejection | null {
  const { pending } = core.stored;
  const depth = {
    ofPool: (id: string) => pending.ofPool(id) - placed.ofPool(id) + 1,
    ofTenant: (name: string) => pending.ofTenant(name) - placed.ofTenant(name) + 1,
  };
  const full = pendingFull(configId, tenant, depth, core.settings);
  if (full === null) return null;
  core.projections.onOther({ kind: 'turned_away', config_id: configId });
  const { message, retry_after_seconds } = full;
  return { ok: false, reason: 'queue_full', message, retry_after_seconds };
}

function repeated(core: Core, row: StoredJob, job: SubmitJob): Taken | Rejection {
  const isSame = row.tenant === (job.tenant ?? null) && row.job_type === job.job_type;
  if (!isSame || !hasPayload(core, row, job)) return conflict(row.id, OTHER_PAYLOAD);
  return { row, created: false, has_file: row.payload_file === job.payload_file };
}

function conflict(id: string, why: string): Rejection {
  return { ok: false, reason: 'conflict', message: `job ${id} ${why}: submit under a new id` };
}

function hasPayload(core: Core, row: StoredJob, job: SubmitJob): boolean {
  const { payload_file } = row;
  if (payload_file === null || job.payload_file === undefined) {
    if (payload_file !== (job.payload_file ?? null)) return false;
    const payload = readPayload(core.sql, row.id);
    return (
      payload === job.payload || (payload !== null && withoutBlanks(payload) === withoutBlanks(job.payload))
    );
  }
  return isSamePayload(payload_file, job.payload_file);
}

/** Removes the blanks between values: another program may have written the payload that is submitted again. */
function withoutBlanks(json: string): string {
  return outsideStrings(json, (part) => part.replaceAll(/[ \t\r\n]+/g, ''));
}

type Rejection = Extract<SubmitAnswer, { ok: false }>;
type Pool =
  | { ok: true; config_id: string; model: string | null; alias: JobAlias | null }
  | Rejection
  | Unserved;

/**
 * Rejects a job whose token is for certain models where the pool that it names does not serve its model: some engines,
 * and base workers, answer with what they serve, whichever model they are asked for. A pool without workers may be
 * about to serve the model.
 */
function foreignPool(
  core: Core,
  { model, model_only, known }: SubmitJob,
  configId: string,
): Rejection | Unserved | null {
  if (!model_only || model === undefined) return null;
  const models = targetsOf(core.aliases.table, model);
  const isOfPool = ({ session }: Serving) => session.config_id === configId;
  const own = core.workers.present(core.now()).filter(isOfPool);
  if (own.some((worker) => models.some((one) => servesModel(worker, one)))) return null;
  const choiceOf = (one: string) => livePool(core, one) ?? knownPool(known, one);
  const unserved = models.filter((one) => choiceOf(one) === null);
  if (unserved.length > 0) return unservedOf(unserved);
  const pools = models.flatMap((one) => {
    const choice = choiceOf(one);
    return choice?.kind === 'pool' ? choice.config_id : [];
  });
  const isNew = pools.length < models.length && !core.workers.all().some(isOfPool);
  if (isNew || pools.includes(configId)) return null;
  const does = pools.length > 0 ? `the pool "${pools[0]}" does` : 'no pool is known that does';
  const message = `the pool "${configId}" does not serve the model "${shortName(model)}", which the job asks for; ${does}, and a token for certain models has to name such a pool among them`;
  return { ok: false, reason: 'unknown_pool', message };
}

/** Returns what a job keeps that goes wherever its alias leads when it is sent. */
function movingAlias({ session }: SubmitJob, step: TakenStep | null): JobAlias | null {
  const alias = jobAlias(step);
  return alias && { ...alias, moves: session === undefined ? {} : { session } };
}

/** Returns the model of a job that stays in this pool: null for an alias of which the pool has no model now. */
function inPool(core: Core, job: SubmitJob, id: string, configId: string) {
  const { model = null } = job;
  if (!core.aliases.has(model)) return { model, alias: null };
  const step = stepIn(core, job, id, configId);
  return { model: step?.model ?? null, alias: jobAlias(step) ?? { name: model, fell: null } };
}

function choosePool(core: Core, job: SubmitJob, id: string): Pool {
  if (job.config_id !== undefined) {
    const { config_id } = job;
    return foreignPool(core, job, config_id) ?? { ok: true, config_id, ...inPool(core, job, id, config_id) };
  }
  const resolved = resolve(core, { ...job, model: job.endpoint ?? job.model ?? null }, id);
  if (isUnserved(resolved)) return resolved;
  const { model, choice } = resolved;
  // The queue may not know yet that the pool was changed: its older workers do not serve this model.
  if (choice.kind === 'pool' && choice.start) core.starts.add(choice.start);
  if (choice.kind === 'pool') {
    const { config_id } = choice;
    if (job.endpoint === undefined || job.model === job.endpoint) {
      return { ok: true, config_id, model, alias: movingAlias(job, resolved.step) };
    }
    if (job.model === undefined) {
      return { ok: true, config_id, model: null, alias: movingAlias(job, resolved.step) };
    }
    return { ok: true, config_id, ...inPool(core, job, id, config_id) };
  }
  if (choice.pools === '') {
    return {
      ok: false,
      reason: 'no_pool',
      message: 'no worker is known here, so the job needs a config_id that says which workers may take it',
    };
  }
  const asked = isNamed(model)
    ? `no worker serves the model "${shortName(model)}"`
    : 'the job names neither config_id nor model';
  return {
    ok: false,
    reason: 'unknown_pool',
    message: `${asked}: give one of these as model: ${choice.models}; or one of these as config_id: ${choice.pools}`,
  };
}
