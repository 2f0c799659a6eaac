import { costOf } from '../../src/admission/fair-line.ts';
import type { LimitView } from '../../src/protocol/index.ts';
import { MOST_PASSED_OVER } from '../../src/queue/dispatch/choose.ts';
import type { Job, Run } from './jobs.ts';
import { LONGEST, type Tenant } from './tenants.ts';

export class BrokenPromise extends Error {
  readonly promise: string;

  constructor(promise: string, message: string) {
    super(message);
    this.promise = promise;
  }
}

interface Looks {
  jobs: ReadonlyMap<string, Job>;
  slots: number;
  /** Tokens of one answer a second. */
  rate: number;
  now(): number;
  /** Slots of workers that are there. */
  free(): number;
  /** All workers are there. */
  isWhole(): boolean;
  /** The queue has heard since it started what all workers go on with that may. */
  isKnown(): boolean;
  standings(): LimitView[];
  runs(): Run[];
}

/** What has come of tokens, and when. */
interface Come {
  at: number;
  tokens: number;
  run: Run;
  /** Epoch ms at which its worker has told the queue; null: it has not. */
  toldAt: number | null;
}

/**
 * What docs/sharing.md promises, from what the world itself knows of its jobs:
 *
 * - `fair`: two tenants without limits that have work all the time come no further apart, in weighted tokens by weight,
 *   than twice what the slots hold at once;
 * - `no_starving`: one that has work gets a slot within the time that the others take for that, and at the end all has run;
 * - `passed_over`: for the sake of warm prompts a job is passed over so often by later ones of its tenant, and no more;
 * - `no_idle_slot`: no slot is free while something waits that its limits admit, and none is held back with room for it;
 * - `running`, `tokens`: limits hold, over restarts of the queue too, but for what those that run cost beyond their
 *   reservations, and for what was broken off;
 * - `requests`: no 60 s, wherever they begin, have more of them than the limit, over restarts of the queue too;
 * - `counts_once`: no more requests of a minute are counted than there were, over restarts of the queue too;
 * - `waits_free`: a stored job that waits holds nothing of its token's limits;
 * - `admitted`: nothing is admitted while more tokens have come, as far as workers have told, than the limit;
 * - `released`: when nothing runs nothing is held.
 */
export class Promises {
  readonly #tenants: readonly Tenant[];
  readonly #looks: Looks;
  /** Weighted tokens by weight. */
  readonly #served = new Map<Tenant, number>();
  /** By tenant since when it has had work all the time. */
  readonly #busySince = new Map<Tenant, number>();
  /** Of two tenants that have work all the time: least and most that the first was ahead. */
  readonly #apart = new Map<string, [least: number, most: number]>();
  readonly #lastGiven = new Map<Tenant, number>();
  #come: Come[] = [];
  /** Epoch ms at which the jobs of a tenant were admitted, each once. */
  readonly #admitted = new Map<Tenant, Map<Job, number>>();
  /** Those that nobody waits for any more. */
  readonly #leftAt = new Map<Job, number>();
  /** Those whose callers wait, in the order in which they were asked for last, and how often each was passed over. */
  readonly #passedOver = new Map<Job, number>();
  readonly #bound: number;

  constructor(tenants: readonly Tenant[], looks: Looks) {
    this.#tenants = tenants;
    this.#looks = looks;
    const least = Math.min(...tenants.map(({ weight }) => weight));
    this.#bound = (2 * looks.slots * costOf(LONGEST.input, LONGEST.output)) / least;
  }

  submitted(job: Job): void {
    const { tenant } = job;
    this.#passedOver.delete(job);
    // What is held back stands in no line.
    if (!job.isStored && tenant.limits === null) this.#passedOver.set(job, 0);
    if (!this.#lastGiven.has(tenant)) this.#lastGiven.set(tenant, this.#looks.now());
  }

  left(job: Job): void {
    this.#leftAt.set(job, this.#looks.now());
  }

  began(run: Run): void {
    const { job } = run;
    this.#lastGiven.set(job.tenant, this.#looks.now());
    this.#serve(job.tenant, costOf(job.input, 0));
    this.#checkPassedOver(job);
    if (this.#admittedAt(run) === this.#looks.now()) this.#checkAdmitted(job);
    this.#checkRequests(job.tenant);
    this.#checkRunning(job.tenant);
  }

  came(run: Run, tokens: number): void {
    this.#serve(run.job.tenant, costOf(0, tokens));
    this.#come.push({ at: this.#looks.now(), tokens, run, toldAt: null });
  }

  /** A worker has told what has come of these. */
  told(runs: ReadonlySet<Run>): void {
    for (const come of this.#come) if (runs.has(come.run)) come.toldAt ??= this.#looks.now();
  }

  ended(run: Run): void {
    const at = this.#looks.now();
    this.#come.push({ at, tokens: run.job.input, run, toldAt: at });
    this.told(new Set([run]));
  }

  /** Its worker died: nothing of it counts, and its prompt is given back. */
  lost(run: Run): void {
    this.#serve(run.job.tenant, -costOf(run.job.input, 0));
    this.uncounted(run);
  }

  /** Its tokens may never be counted. */
  uncounted(run: Run): void {
    this.#come = this.#come.filter((come) => come.run !== run);
  }

  /** Nobody is known to have been served, and what runs is told anew. */
  restarted(): void {
    const running = new Set(this.#looks.runs());
    for (const come of this.#come) if (running.has(come.run)) come.toldAt = null;
    this.#busySince.clear();
    this.#apart.clear();
  }

  afterEvent(): void {
    const pending = this.#pending();
    this.#checkSlots(pending);
    this.#checkWaiting();
    for (const tenant of this.#tenants) {
      const isBusy = tenant.limits === null && (pending.get(tenant) ?? 0) > 0;
      if (!isBusy) this.#busySince.delete(tenant);
      else if (!this.#busySince.has(tenant)) this.#busySince.set(tenant, this.#looks.now());
    }
    this.#checkFair();
  }

  afterSecond(): void {
    const since = this.#looks.now() - 60_000;
    this.#come = this.#come.filter(({ at }) => at > since);
    for (const tenant of this.#tenants) this.#checkTokens(tenant);
    this.#checkCounted();
    this.#checkStarving();
  }

  atEnd(): void {
    const left = [...this.#looks.jobs.values()].filter(({ state }) => state !== 'over');
    if (left.length > 0) this.#broken('no_starving', `${left.length} jobs never ran, such as ${left[0]!.id}`);
    for (const { token_name, running, held, tokens_per_minute } of this.#looks.standings()) {
      if (running.used > 0 || held > 0 || tokens_per_minute.used !== 0)
        this.#broken(
          'released',
          `${token_name} still has ${JSON.stringify({ running, held, tokens_per_minute })}`,
        );
    }
  }

  #pending(): Map<Tenant, number> {
    const pending = new Map<Tenant, number>();
    for (const { state, tenant } of this.#looks.jobs.values())
      if (state === 'pending') pending.set(tenant, (pending.get(tenant) ?? 0) + 1);
    return pending;
  }

  #checkSlots(pending: ReadonlyMap<Tenant, number>): void {
    const standings = new Map(this.#looks.standings().map((standing) => [standing.token_name, standing]));
    for (const [tenant, count] of pending) {
      const standing = standings.get(tenant.name);
      const held = standing?.held ?? 0;
      if (count > held && this.#looks.free() > 0)
        this.#broken('no_idle_slot', `a slot is free, and ${count - held} jobs of ${tenant.name} are ready`);
      // One that is tried again may be the next of its line.
      const isNextUnknown = [...this.#looks.jobs.values()].some(
        (job) => job.tenant === tenant && job.isStored && job.state === 'away',
      );
      if (isNextUnknown || !this.#looks.isKnown()) continue;
      if (standing && held > 0 && count === held && hasRoom(standing))
        this.#broken(
          'no_idle_slot',
          `${held} jobs of ${tenant.name} are held back: ${JSON.stringify(standing)}`,
        );
    }
  }

  /** Of those that are away nobody has said yet that they do not run. */
  #checkWaiting(): void {
    const holds = ({ state, isStored }: Job) => (state === 'pending' ? !isStored : state !== 'over');
    const holding = [...this.#looks.jobs.values()].filter(holds);
    for (const { token_name, running } of this.#looks.standings()) {
      const most = holding.filter(({ tenant }) => tenant.name === token_name).length;
      if (running.used > most)
        this.#broken('waits_free', `${token_name} holds ${running.used}, ${most} of it for what may run`);
    }
  }

  #checkFair(): void {
    const busy = [...this.#busySince.keys()];
    const pairs = new Set<string>();
    for (const [index, one] of busy.entries()) {
      for (const other of busy.slice(index + 1)) {
        const pair = [one.name, other.name].sort().join(' ');
        pairs.add(pair);
        const [first, second] = one.name < other.name ? [one, other] : [other, one];
        const ahead = (this.#served.get(first) ?? 0) - (this.#served.get(second) ?? 0);
        const [least, most] = this.#apart.get(pair) ?? [ahead, ahead];
        const range: [number, number] = [Math.min(least, ahead), Math.max(most, ahead)];
        this.#apart.set(pair, range);
        const apart = range[1] - range[0];
        if (apart > this.#bound)
          this.#broken('fair', `${pair} are ${apart} apart; the bound is ${this.#bound}`);
      }
    }
    for (const pair of this.#apart.keys()) if (!pairs.has(pair)) this.#apart.delete(pair);
  }

  /** Only while all workers are there: how long slots take is known then. */
  #checkStarving(): void {
    if (!this.#looks.isWhole()) {
      for (const tenant of this.#busySince.keys()) this.#lastGiven.set(tenant, this.#looks.now());
      return;
    }
    const heaviest = Math.max(...this.#tenants.map(({ weight }) => weight));
    const tokens = this.#tenants.length * this.#bound * heaviest;
    const most = 30_000 + (1000 * tokens) / (this.#looks.slots * costOf(0, this.#looks.rate));
    for (const [tenant, since] of this.#busySince) {
      const waited = this.#looks.now() - Math.max(since, this.#lastGiven.get(tenant)!);
      if (waited > most) this.#broken('no_starving', `${tenant.name} has got no slot for ${waited / 1000} s`);
    }
  }

  #checkPassedOver(job: Job): void {
    if (!this.#passedOver.has(job)) return;
    for (const [other, times] of this.#passedOver) {
      if (other === job) break;
      if (other.state !== 'pending') this.#passedOver.delete(other);
      else if (other.tenant === job.tenant) {
        this.#passedOver.set(other, times + 1);
        if (times === MOST_PASSED_OVER)
          this.#broken(
            'passed_over',
            `${other.id} was passed over ${times + 1} times, the last time by ${job.id}`,
          );
      }
    }
    this.#passedOver.delete(job);
  }

  #checkRunning(tenant: Tenant): void {
    const most = tenant.limits?.running;
    if (most === undefined) return;
    // What is broken off is told to stop.
    const isRunning = ({ job }: Run) => job.tenant === tenant && job.state !== 'over';
    const running = this.#looks.runs().filter(isRunning).length;
    if (running > most) this.#broken('running', `${tenant.name} runs ${running}, its limit is ${most}`);
  }

  /** Within the last minute, but for what those that ran in it cost beyond what they reserved. */
  #checkTokens(tenant: Tenant): void {
    const most = tenant.limits?.tokens_per_minute;
    if (most === undefined) return;
    const own = this.#come.filter(({ run }) => run.job.tenant === tenant);
    const come = own.reduce((sum, { tokens }) => sum + tokens, 0);
    // What is broken off has freed its reservation before its worker tells the rest of what it used.
    const keptOf = ({ job }: Run) => (this.#leftAt.has(job) ? 0 : job.reserved);
    const beyondOf = (run: Run) => Math.max(0, run.job.input + run.come - keptOf(run));
    const beyond = [...new Set(own.map(({ run }) => run))].reduce((sum, run) => sum + beyondOf(run), 0);
    const largest = LONGEST.input + LONGEST.output;
    if (come > Math.max(most, largest) + beyond)
      this.#broken(
        'tokens',
        `${tenant.name} had ${come} tokens in a minute; its limit is ${most}, ${beyond} beyond`,
      );
  }

  #checkAdmitted({ tenant }: Job): void {
    const most = tenant.limits?.tokens_per_minute;
    if (most === undefined) return;
    const now = this.#looks.now();
    // What is told in the same second may have been told after it was admitted.
    const known = this.#come.filter(
      ({ run, at, toldAt }) =>
        run.job.tenant === tenant && toldAt !== null && toldAt < now && at > now - 60_000,
    );
    const come = known.reduce((sum, { tokens }) => sum + tokens, 0);
    if (come > most)
      this.#broken('admitted', `${tenant.name} has used ${come} of ${most} tokens, and begins another`);
  }

  /**
   * Epoch ms. The frame of a request says when it was admitted; a stored job is when it is given to a worker first.
   * What is tried again was admitted before.
   */
  #admittedAt({ job, account }: Run): number {
    const admitted = this.#admitted.get(job.tenant) ?? new Map<Job, number>();
    this.#admitted.set(job.tenant, admitted);
    const before = admitted.get(job);
    if (before !== undefined) return before;
    const isTold = job.tenant.limits !== null && typeof account === 'string';
    const at = isTold ? Number(JSON.parse(account)[3]) : this.#looks.now();
    admitted.set(job, at);
    return at;
  }

  #checkRequests(tenant: Tenant): void {
    const most = tenant.limits?.requests_per_minute;
    if (most === undefined) return;
    const times = [...this.#admitted.get(tenant)!.values()].sort((one, other) => one - other);
    for (const [index, at] of times.entries()) {
      const before = times[index - most];
      if (before !== undefined && at - before < 60_000)
        this.#broken('requests', `${tenant.name} had ${most + 1} admitted in ${at - before} ms`);
    }
  }

  /** A request counts up to a second longer than its minute. Of those that have not begun nobody knows who was admitted. */
  #checkCounted(): void {
    const since = this.#looks.now() - 62_000;
    for (const { token_name, requests_per_minute } of this.#looks.standings()) {
      if (requests_per_minute.limit === null) continue;
      const mayCount = (job: Job) => {
        const at = this.#admitted.get(job.tenant)?.get(job) ?? this.#leftAt.get(job);
        return job.tenant.name === token_name && (at === undefined || at > since);
      };
      const most = [...this.#looks.jobs.values()].filter(mayCount).length;
      if (requests_per_minute.used > most)
        this.#broken(
          'counts_once',
          `${token_name} has ${requests_per_minute.used} counted, and had ${most} at most`,
        );
    }
  }

  #serve(tenant: Tenant, tokens: number): void {
    this.#served.set(tenant, (this.#served.get(tenant) ?? 0) + tokens / tenant.weight);
  }

  #broken(promise: string, message: string): never {
    throw new BrokenPromise(promise, message);
  }
}

/** Whether the dearest request would be admitted. */
function hasRoom({ requests_per_minute, tokens_per_minute, running }: LimitView): boolean {
  const cost = LONGEST.input + LONGEST.output;
  const isBelow = ({ used, limit }: { used: number; limit: number | null }, more: number) =>
    limit === null || used + more <= limit;
  return isBelow(requests_per_minute, 1) && isBelow(running, 1) && isBelow(tokens_per_minute, cost);
}
