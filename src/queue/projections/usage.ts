import { type Failure, lineOfJob, type Usage } from '../../protocol/index.ts';
import { accountIn } from '../attempts/account.ts';
import type { JobEvent, OtherEvent, Settlement } from '../events/event.ts';
import type { Projection } from '../events/projection.ts';
import type { EndedBy, Ending, Job, WaitingJob } from '../job.ts';
import type { UsageAmounts, UsageKey, UsageMode } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { adapterOf, type Worker } from '../state/worker.ts';
import { setUsage } from '../store/jobs-table.ts';
import { findPrice } from '../store/session-table.ts';
import type { Charges } from './charges.ts';
import type { Ledger } from './ledger.ts';
import { amountsOf, type CountedAs, slotAmounts, tokenAmounts, tokensOf } from './usage-amounts.ts';
import type { Cancelled, GivenUp, UsageBook } from './usage-book.ts';

/**
 * Counts what attempts use (docs/usage.md):
 *
 * | what happens to an attempt                                 | requests, and as what          | tokens             |
 * | ---------------------------------------------------------- | ------------------------------ | ------------------ |
 * | it ends its job: succeeded, or its caller hung up          | one: succeeded, or cancelled   | input and output   |
 * | it runs when its job is cancelled                          | one: cancelled                 | output generated so far; the rest when its worker reports it |
 * | it runs when the deadline of its job passes                | one: failed                    | as in the row above |
 * | it ends its job otherwise                                  | one: failed                    | wasted             |
 * | it fails and another follows, or it was given up before    | none                           | wasted             |
 * | its end is reported again                                  | none                           | none               |
 * | its request ends and the gateway requests it again         | the count is taken back        | wasted             |
 * | its answer is moved, or a stored job goes on from it       | as in the two rows above       | wasted, except what its caller, or the job's row, has |
 *
 * The time that an attempt held its slot is counted whenever the queue learns that it ended, once and in full, and so is
 * its cost: the price of the worker's machine, divided by its slots.
 */
export class UsageCounter implements Projection {
  readonly #core: Core;
  readonly #book: UsageBook;
  readonly #charges: Charges;
  readonly #ledger: Ledger;

  constructor(core: Core, book: UsageBook, charges: Charges, ledger: Ledger) {
    this.#core = core;
    this.#book = book;
    this.#charges = charges;
    this.#ledger = ledger;
  }

  on(event: JobEvent): void {
    const { job, step, usage } = event;
    switch (step) {
      case 'submitted':
        if (job.mode === 'stored') return;
        if (event.replaced) this.#countGivenUp(event.replaced, null);
        return this.#book.asked(job.id, event.kept ?? 0);
      case 'settled':
      case 'cancelled':
      case 'expired':
        return this.#countEnd(job, event.ending!, event.by!, usage);
      case 'attempt_failed':
      case 'lease_expired':
        if (!event.isRepeated) return;
        this.#book.keep(job.fence_token, event.kept ?? 0);
        this.#countWasted(job, job.fence_token, usage);
        return this.#countSlotTime(job);
      case 'released':
      case 'returned':
        this.#book.keep(job.fence_token, event.kept ?? 0);
        return this.#countSlotTime(job);
    }
  }

  onOther(event: OtherEvent): void {
    if (event.kind === 'settled_aside' && event.worker.session.extended) this.#countAside(event);
  }

  /** Counts the end of a job, in the commit that ends it or, for a waiting job, in the next one. */
  #countEnd(job: Job, ending: Ending, by: EndedBy, usage: Usage | undefined): void {
    const as = endOf(ending);
    const isCallers = isEndedByCaller(as, ending.error?.code);
    const cancelled = isCallers && by !== 'worker' ? this.#cancelledNow(job) : null;
    const known = usage ?? (cancelled === null ? undefined : usageSoFar(cancelled));
    const amounts = {
      ...amountsOf(as, known, job.state === 'leased', isCallers),
      ...this.#takeSlotTime(job),
    };
    const entry = { key: keyOf(this.#core, job, usage), amounts, job_id: job.id };
    if (job.mode === 'stored') {
      this.#book.add(entry);
      if (cancelled !== null) this.#giveUp(job, cancelled);
      return;
    }
    this.#book.gather(entry, by === 'worker' ? job.fence_token : null);
    if (as !== 'cancelled') this.#book.counted(job.id, entry);
    if (by !== 'worker') this.#countGivenUp(job, cancelled);
  }

  /** Returns what is known of the running attempt that is cancelled; null if no worker runs the job. */
  #cancelledNow(job: Job): Cancelled | null {
    if (job.state !== 'leased') return null;
    const charge = this.#charges.of(job);
    return { told: charge?.seen ?? 0, charge };
  }

  /** Counts how long an attempt held its slot if the attempt ends without ending its job. */
  #countSlotTime(job: Job): void {
    const amounts = this.#takeSlotTime(job);
    if (!amounts.slot_ms) return;
    this.#book.gather({ key: keyOf(this.#core, job, undefined), amounts }, null);
    // The command of a stored job has a commit, so the count is written with it.
    if (job.mode === 'stored') this.#book.write();
  }

  /** Counts an attempt that still runs when its waiting job ends or the gateway requests the job anew. */
  #countGivenUp(job: WaitingJob, cancelled: Cancelled | null = null): void {
    this.#countSlotTime(job);
    this.#giveUp(job, cancelled);
  }

  #giveUp(job: Job, cancelled: Cancelled | null): void {
    if (job.state !== 'leased') return;
    this.#book.giveUp(job.fence_token, job.id, keyOf(this.#core, job, undefined), cancelled);
  }

  /** Counts the usage that a settlement reports without ending a job. */
  #countAside({ worker, job, claim, outcome, frame }: OtherEvent & { kind: 'settled_aside' }): void {
    const { fence_token, usage } = frame;
    const givenUp = this.#book.takeGivenUp(fence_token) ?? this.#givenUpEarlier(worker, job, fence_token);
    if (givenUp !== null) {
      const key = usage?.model === undefined ? givenUp.key : { ...givenUp.key, model: usage.model };
      const { cancelled, kept } = givenUp;
      const amounts =
        cancelled === null
          ? { wasted: Math.max(0, tokensOf(usage) - kept) }
          : this.#restOfCancelled(job, cancelled, frame);
      this.#book.gather({ key, amounts }, fence_token);
      // The command of a stored job has a commit, so the count is written together with the job's row.
      if (job?.mode === 'stored') this.#book.write();
    } else if (claim === 'unknown' && outcome === 'accepted') this.#countUnknown(worker, frame);
    else if (
      job !== null &&
      isOwnAttempt(job, worker, fence_token) &&
      (claim === 'stale' || claim === 'lapsed')
    )
      this.#countWasted(job, fence_token, usage);
  }

  /**
   * Returns the attempt of a stored job that an earlier process of the queue ended while it ran, unless its worker has
   * reported since what it used: its row has what was counted until then, which has no prompt.
   */
  #givenUpEarlier(worker: Worker, job: Job | null, fence: number): GivenUp | null {
    if (job?.mode !== 'stored' || job.fence_token !== fence || !this.#core.fences.isEarlier(fence))
      return null;
    const isOver = job.state === 'cancelled' || job.state === 'expired';
    if (!isOver || job.worker_id !== worker.session.worker_id || job.error === null) return null;
    const { usage } = JSON.parse(job.error) as Failure;
    if (usage?.estimated !== true || usage.prompt_tokens > 0) return null;
    const cancelled = { told: usage.completion_tokens, charge: null };
    return { key: keyOf(this.#core, job, undefined), kept: 0, cancelled };
  }

  /** Returns what the worker's last frame adds for a cancelled attempt, whose request was counted already. */
  #restOfCancelled(
    job: Job | null,
    { told, charge }: Cancelled,
    { fence_token, usage }: Settlement,
  ): Partial<UsageAmounts> {
    if (usage === undefined) return {};
    if (charge !== null) this.#charges.settle(charge, usage);
    const tokens = tokenAmounts(usage);
    if (job?.mode === 'stored') {
      const { model: _, ...all } = usage;
      const completion_tokens = Math.max(told, tokens.output);
      setUsage(this.#core.sql, job.id, fence_token, { ...all, completion_tokens });
    }
    return { ...tokens, output: Math.max(0, tokens.output - told) };
  }

  /** Counts as wasted the tokens of an attempt that no caller gets, except those from which the next attempt goes on. */
  #countWasted(job: Job, fence: number, usage: Usage | undefined): void {
    if (usage === undefined || this.#book.isCounted(fence)) return;
    const wasted = Math.max(0, tokensOf(usage) - this.#keptOf(job, fence));
    this.#book.gather({ key: keyOf(this.#core, job, usage), amounts: { wasted } }, fence);
    // The command of a stored job has a commit, so the count is written with it.
    if (job.mode === 'stored') this.#book.write();
  }

  /** Returns how many tokens an attempt used and left to the next one, also if it began before the queue restarted. */
  #keptOf(job: Job, fence: number): number {
    const kept = this.#book.keptOf(fence);
    if (kept > 0 || !this.#core.fences.isEarlier(fence)) return kept;
    if (job.mode === 'stored') return this.#core.stored.kept(job)?.partial.ids.length ?? 0;
    return this.#book.keptEarlier(job.id);
  }

  /** Counts the settlement of a request from before the queue restarted, about which only the worker knows. */
  #countUnknown(worker: Worker, frame: Settlement): void {
    const { fence_token, usage, account } = frame;
    if (this.#book.isCounted(fence_token)) return;
    const [tenant = '', token_name = ''] = accountIn(account);
    const model = usage?.model ?? onlyModel(worker) ?? '';
    const key = { tenant, token_name, config_id: worker.session.config_id, model, mode: 'waiting' };
    // If the gateway has requested the job again since the restart, the newer attempt counts as the request.
    const isOlder = this.#ledger.isRecent(frame.job_id) || this.#book.hasCounted(frame.job_id);
    const as = endToldBy(frame);
    const isCallers = isEndedByCaller(as, frame.type === 'job_error' ? frame.code : undefined);
    const { job_id } = frame;
    const used = isOlder
      ? { wasted: Math.max(0, tokensOf(usage) - this.#book.keptEarlier(job_id)) }
      : amountsOf(as, usage, true, isCallers);
    const entry = { key, amounts: { ...used, ...this.#takeSlotTimeOf(worker, fence_token) }, job_id };
    this.#book.gather(entry, fence_token);
    if (!isOlder && as !== 'cancelled') this.#book.counted(frame.job_id, entry);
  }

  /**
   * Takes the slot time of the attempt that holds the job's lease; empty if no attempt does, or it was counted before.
   */
  #takeSlotTime(job: Job): Partial<UsageAmounts> {
    const { state, worker_id, fence_token, leased_at } = job;
    if (state !== 'leased' || worker_id === null) return {};
    const worker = this.#core.workers.lastOf(worker_id);
    if (worker !== null) return this.#takeSlotTimeOf(worker, fence_token);
    // The queue no longer expects the worker back, or the worker has not registered since the queue restarted.
    return slotAmounts(
      this.#core.now() - (leased_at ?? this.#core.now()),
      findPrice(this.#core.sql, worker_id),
    );
  }

  /** Takes the slot time of one attempt at a worker, even where the queue does not know its job. */
  #takeSlotTimeOf(worker: Worker, fence: number): Partial<UsageAmounts> {
    const since = worker.heldSince.get(fence);
    if (since === undefined) return {};
    worker.heldSince.delete(fence);
    return slotAmounts(this.#core.now() - since, worker.session);
  }
}

function usageSoFar({ told }: Cancelled): Usage {
  return { prompt_tokens: 0, completion_tokens: told, estimated: true };
}

/** Says whether the attempt may be this worker's: a worker cannot report another worker's newest attempt. */
function isOwnAttempt(job: Job, { session }: Worker, fence: number): boolean {
  return fence < job.fence_token || job.worker_id === session.worker_id;
}

/**
 * Returns how a job's end is counted. If the relay reports first that the caller hung up, the attempt has failed with
 * the code `cancelled`.
 */
function endOf({ state, error, result }: Ending): CountedAs {
  if (state === 'succeeded') return isRefusal(result) ? 'failed' : 'succeeded';
  if (state === 'cancelled') return state;
  return error?.code === 'cancelled' ? 'cancelled' : 'failed';
}

function endToldBy(frame: Settlement): CountedAs {
  if (frame.type === 'job_error') return frame.code === 'cancelled' ? 'cancelled' : 'failed';
  return frame.type === 'job_result' && isRefusal(frame.result) ? 'failed' : 'succeeded';
}

/**
 * Says whether the caller ended the job or set the deadline that did: then the tokens generated so far are used, not
 * wasted.
 */
function isEndedByCaller(as: CountedAs, code: string | undefined): boolean {
  return as === 'cancelled' || code === 'deadline';
}

/** Says whether a result is an error of the engine, as an answer that a relay carried may be. */
function isRefusal(result: Record<string, unknown> | null): boolean {
  return Number(result?.http_status ?? 0) >= 400;
}

/** Returns the tenant, token, pool, model and mode that an attempt's usage is counted under. */
export function keyOf(core: Core, job: Job, usage: Usage | undefined): UsageKey & { mode: UsageMode } {
  const worker = job.worker_id === null ? null : core.workers.byId(job.worker_id);
  const asked = job.mode === 'waiting' ? job.model : null;
  return {
    tenant: job.tenant ?? '',
    token_name: job.token_name ?? '',
    config_id: job.config_id || (worker?.session.config_id ?? ''),
    model: usage?.model ?? (worker && (adapterOf(worker, job.model) ?? onlyModel(worker))) ?? asked ?? '',
    mode: modeOf(job),
  };
}

function modeOf({ mode, id }: Job): UsageMode {
  return lineOfJob(id) === null ? mode : 'batch';
}

/** Returns the worker's only model, or null if it serves none or several. */
function onlyModel({ models }: Worker): string | null {
  return models.length === 1 ? models[0]! : null;
}
