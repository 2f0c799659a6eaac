import type { Limits } from '../../protocol/index.ts';
import { Account, isKeptBy, type OverLimit, type Standing, type Weighed } from '../limits/account.ts';
import { startOf } from '../limits/calendar-sum.ts';
import type { UsageAmounts, UsageKey } from '../rpc.ts';
import { countHeld, deleteLimits, letInJobs, readLimits, writeLimits } from '../store/limits-table.ts';
import type { Ports } from '../store/ports.ts';
import { type TokensUsed, tokensOfToken } from '../store/usage-table.ts';
import type { Cost, WaitingJob } from './job.ts';

/** What limits look at of a job of either mode. */
interface Limited {
  id: string;
  token_name: string | null;
  config_id: string;
  /** Or its JSON; null: its token had no limits when it was submitted. */
  cost: Cost | string | null;
}

/** Where a stored job is in line: those of a token, a pool and a priority are let in one after another. */
interface Place {
  token_name: string | null;
  config_id: string;
  priority: number;
}

interface HeldLine {
  place: Place;
  /** How many. */
  jobs: number;
  /** What kept its first job when it was last looked at, at this time and with so much freed; null: it has not been. */
  kept: { over: OverLimit; at: number; freed: number } | null;
}

/** What keeps a line is looked at again after this time, ms, where no more room was told of. */
const LOOK_AGAIN_MS = 1000;

/**
 * The limits of tokens: what each has used, who is let in, and who is held back. What is used is written together with
 * the usage that it comes from (UsageBook); whom it lets in of stored jobs their rows tell, and of requests from before
 * a restart their workers.
 */
export class LimitBook {
  readonly #ports: Ports;
  readonly #accounts = new Map<string, Account>();
  /** Tokens of which something is to be written. */
  readonly #changed = new Set<string>();
  /** By job: the token that it was let in for. */
  readonly #letIn = new Map<string, string>();
  /** Requests of before a restart, by id: the worker that still runs it. */
  readonly #resumed = new Map<string, string>();
  /** Requests that are held back, by token and by what they ask for, in their order. */
  readonly #waiting = new Map<string, Map<string, Set<WaitingJob>>>();
  /** Stored jobs that are held back, by their line. */
  readonly #held = new Map<string, HeldLine>();
  /** The one stored job of a line that is let in and was given to nobody yet. */
  readonly #next = new Map<string, string>();
  /** By token, epoch ms: whom it had let in until then stands in what was read at the start. */
  readonly #readAt = new Map<string, number>();
  /** Epoch ms at which the next one that is held back may be let in; null: something has to end first. */
  opensAt: number | null = null;
  #whenChanged: (isStored: boolean) => void = () => {};
  #unwritten: (tokenName: string) => TokensUsed[] = () => [];

  constructor(ports: Ports) {
    this.#ports = ports;
    const now = ports.now();
    for (const { token_name, limits, state, saved_at } of readLimits(ports.sql)) {
      this.#accounts.set(token_name, new Account(JSON.parse(limits), JSON.parse(state), now));
      this.#readAt.set(token_name, saved_at);
      this.#readBudgets(token_name);
    }
    if (this.#accounts.size === 0) return;
    for (const { n, ...place } of countHeld(ports.sql)) this.#hold(place, n);
    for (const job of letInJobs(ports.sql)) {
      this.letInAgain(job);
      if (job.waits) this.#next.set(lineOf(job), job.id);
    }
  }

  /** @param unwritten what the usage book has counted for a token and not written yet */
  set unwritten(unwritten: (tokenName: string) => TokensUsed[]) {
    this.#unwritten = unwritten;
  }

  /** @param write the usage book has something to write, and when: with the commit of a stored job, or soon */
  set whenChanged(write: (isStored: boolean) => void) {
    this.#whenChanged = write;
  }

  /**
   * What the gateway says of a token; what it said last counts for all that it has submitted.
   * @param limits null: it has none; undefined: nothing is said
   */
  tell(tokenName: string | null | undefined, limits: Limits | null | undefined): void {
    if (!tokenName || limits === undefined) return;
    const account = this.#accounts.get(tokenName);
    if (limits !== null && account && JSON.stringify(account.limits) === JSON.stringify(limits)) return;
    if (limits === null && !account) return;
    this.#change(tokenName, true);
    // Without limits nothing is held back: `letIn` lets all in.
    if (account) account.setLimits(limits ?? {}, this.#ports.now());
    else this.#accounts.set(tokenName, new Account(limits ?? {}, {}, this.#ports.now()));
    this.#readBudgets(tokenName);
  }

  /** What the token has used since the day and the month began: with all that is counted and not written yet. */
  #readBudgets(tokenName: string): void {
    const account = this.#accounts.get(tokenName);
    if (!account || !hasBudget(account.limits)) return;
    const now = this.#ports.now();
    for (const unit of ['day', 'month'] as const) {
      const used = tokensOfToken(this.#ports.sql, tokenName, startOf(unit, now));
      const unwritten = this.#unwritten(tokenName);
      const all = [...used, ...unwritten].map(({ model, config_id, tokens }) => ({
        names: [model, config_id],
        tokens,
      }));
      account.setUsed(unit, all, now);
    }
  }

  /** Whether anything is held back by its token's limits. */
  get hasHeld(): boolean {
    return this.#waiting.size > 0 || this.#held.size > 0;
  }

  /** What keeps it from being let in; null: it is let in now, or its token has no limits. */
  letIn(job: Limited): OverLimit | null {
    const account = this.#accountOf(job);
    if (!account) return null;
    const weighed = weigh(job);
    const over = account.over(weighed, this.#ports.now());
    if (over !== null) return over;
    this.#add(account, job, weighed, this.#ports.now());
    return null;
  }

  /** It was let in before, and is again whatever has happened meanwhile. @param at epoch ms; null: it was counted */
  letInAgain(job: Limited, at: number | null = null): void {
    const account = this.#accountOf(job);
    if (account) this.#add(account, job, weigh(job), at);
  }

  /** A worker goes on with a request of before the restart. @param letInAt epoch ms */
  resume(job: Limited, letInAt: number, workerId: string): void {
    if (this.#letIn.has(job.id)) return;
    const { token_name } = job;
    // Its limits come with the next request, where they were not written yet.
    if (token_name && !this.#accounts.has(token_name)) this.#accounts.set(token_name, new Account({}));
    const isCounted = letInAt <= (this.#readAt.get(token_name ?? '') ?? 0);
    this.letInAgain(job, isCounted ? null : letInAt);
    if (this.#letIn.has(job.id)) this.#resumed.set(job.id, workerId);
  }

  /** So many tokens of its attempt have come by now. */
  generated(jobId: string, tokens: number): void {
    this.#accountLetIn(jobId)?.generated(jobId, tokens, this.#ports.now());
  }

  /** Its attempt is over, and another one may follow. */
  endAttempt(jobId: string): void {
    this.#accountLetIn(jobId)?.endAttempt(jobId, this.#ports.now());
  }

  /** It is over; what it held is free. */
  end(jobId: string): void {
    const tokenName = this.#letIn.get(jobId);
    if (tokenName === undefined) return;
    this.#letIn.delete(jobId);
    this.#resumed.delete(jobId);
    this.#accounts.get(tokenName)?.end(jobId, this.#ports.now());
  }

  /** The same of a request of before the restart, which no job is known of. */
  endResumed(jobId: string): void {
    if (this.#resumed.has(jobId)) this.end(jobId);
  }

  /** The worker is gone. */
  endResumedOf(workerId: string): void {
    for (const [jobId, by] of this.#resumed) if (by === workerId) this.end(jobId);
  }

  /** What was used, as it is written into the usage book. */
  charge({ token_name, model, config_id }: UsageKey, { input = 0, output = 0 }: Partial<UsageAmounts>): void {
    const account = this.#accounts.get(token_name);
    if (!account || input + output === 0) return;
    account.charge([model, config_id], input + output, this.#ports.now());
    this.#changed.add(token_name);
  }

  /** How every token with limits stands. */
  *standings(): Generator<{ token_name: string; held: number; standings: Standing[] }> {
    for (const [token_name, account] of this.#accounts) {
      yield { token_name, held: this.#heldOf(token_name), standings: account.standings(this.#ports.now()) };
    }
  }

  /** Those that a job of these names is under; none where its token has no limits. */
  standingsOf({ token_name, config_id, cost }: Limited): Standing[] {
    const names = weigh({ id: '', token_name, config_id, cost }).names;
    return this.#accountOf({ token_name })?.standings(this.#ports.now(), names) ?? [];
  }

  /** A request waits for its minute. */
  hold(job: WaitingJob): void {
    const models = this.#waiting.get(job.token_name!) ?? new Map<string, Set<WaitingJob>>();
    this.#waiting.set(job.token_name!, models);
    models.set(lineNameOf(job), (models.get(lineNameOf(job)) ?? new Set()).add(job));
  }

  /** It is let in, or waits no more. */
  unhold(job: WaitingJob): void {
    const models = this.#waiting.get(job.token_name ?? '');
    const jobs = models?.get(lineNameOf(job));
    if (!models || !jobs?.delete(job) || jobs.size > 0) return;
    models.delete(lineNameOf(job));
    if (models.size === 0) this.#waiting.delete(job.token_name!);
  }

  /** Requests that are held back: by token the lines of those under the same limits, in order. */
  waiting(): ReadonlySet<WaitingJob>[][] {
    return [...this.#waiting.values()].map((models) =>
      [...models.values()].sort((one, other) => (goesBefore(firstOf(one), firstOf(other)) ? -1 : 1)),
    );
  }

  /** What keeps those that wait already, and this one with them; null: it may be let in before them. */
  keptWith(job: WaitingJob): OverLimit | null {
    for (const jobs of this.#waiting.get(job.token_name ?? '')?.values() ?? []) {
      const { held, priority } = firstOf(jobs);
      if (held !== null && priority >= job.priority && this.isKeptBy(held, job)) return held;
    }
    return null;
  }

  /** Whether what keeps another one keeps this one too. */
  isKeptBy(over: OverLimit, job: WaitingJob): boolean {
    return isKeptBy(over, weigh(job).names);
  }

  /** Whether a stored job must be held back: one of its line is let in and waits, or is held back too. */
  mustHold(job: Place): boolean {
    if (!this.#accountOf(job)) return false;
    return this.#next.has(lineOf(job)) || this.#held.has(lineOf(job));
  }

  /** A stored job came to be held back, or was let in or ended. */
  holdStored(job: Place): void {
    this.#hold(job, 1);
  }

  unholdStored(job: Place): void {
    this.#hold(job, -1);
  }

  /** A stored job is let in, and waits for a slot. */
  waitsForSlot(job: Place & Pick<Limited, 'id'>): void {
    if (this.#letIn.has(job.id)) this.#next.set(lineOf(job), job.id);
  }

  /** It waits for no slot any more. */
  leftLine(job: Place & Pick<Limited, 'id'>): void {
    if (this.#next.get(lineOf(job)) === job.id) this.#next.delete(lineOf(job));
  }

  /** Lines that hold jobs back and have none that was let in and waits for a slot; the highest priority first. */
  openLines(): HeldLine[] {
    const open: HeldLine[] = [];
    for (const [line, held] of this.#held) if (!this.#next.has(line)) open.push(held);
    return open.length < 2 ? open : open.sort((one, other) => other.place.priority - one.place.priority);
  }

  /** What keeps the first job of a line, as it was found before; null: it has to be looked at. */
  stillKept({ place, kept }: HeldLine): OverLimit | null {
    if (kept === null || this.#accountOf(place)?.freed !== kept.freed) return null;
    const until = Math.min(kept.at + LOOK_AGAIN_MS, kept.over.opens_at ?? Number.POSITIVE_INFINITY);
    return this.#ports.now() < until ? kept.over : null;
  }

  /** What keeps it was found. */
  keep(held: HeldLine, over: OverLimit): void {
    held.kept = { over, at: this.#ports.now(), freed: this.#accountOf(held.place)?.freed ?? 0 };
  }

  /** Stored jobs of a pool and a priority that limits hold back. */
  heldOfPool(configId: string, priority: number): number {
    let held = 0;
    for (const { place, jobs } of this.#held.values())
      if (place.config_id === configId && place.priority === priority) held += jobs;
    return held;
  }

  /** In the commit that usage is written in. */
  save(): void {
    const { sql, now } = this.#ports;
    for (const token_name of this.#changed) {
      const account = this.#accounts.get(token_name)!;
      if (
        Object.keys(account.limits).length === 0 &&
        account.running === 0 &&
        this.#heldOf(token_name) === 0
      ) {
        deleteLimits(sql, token_name);
        this.#accounts.delete(token_name);
        continue;
      }
      const [limits, state] = [JSON.stringify(account.limits), JSON.stringify(account.state(now()))];
      writeLimits(sql, { token_name, limits, state, saved_at: now() });
    }
  }

  saved(): void {
    this.#changed.clear();
  }

  #add(account: Account, job: Limited, weighed: Weighed, at: number | null): void {
    account.letIn(weighed, at);
    this.#letIn.set(job.id, job.token_name!);
    if (at !== null) this.#change(job.token_name!, false);
  }

  #accountLetIn(jobId: string): Account | undefined {
    return this.#accounts.get(this.#letIn.get(jobId) ?? '');
  }

  #accountOf({ token_name }: Pick<Limited, 'token_name'>): Account | undefined {
    return token_name === null ? undefined : this.#accounts.get(token_name);
  }

  #heldOf(tokenName: string): number {
    let held = 0;
    for (const jobs of this.#waiting.get(tokenName)?.values() ?? []) held += jobs.size;
    for (const { place, jobs } of this.#held.values()) if (place.token_name === tokenName) held += jobs;
    return held;
  }

  #hold({ token_name, config_id, priority }: Place, change: number): void {
    const place = { token_name, config_id, priority };
    const line = lineOf(place);
    const jobs = (this.#held.get(line)?.jobs ?? 0) + change;
    // Another one may be the first.
    if (jobs > 0) this.#held.set(line, { place, jobs, kept: null });
    else this.#held.delete(line);
  }

  #change(tokenName: string, isStored: boolean): void {
    this.#changed.add(tokenName);
    this.#whenChanged(isStored);
  }
}

/** JSON: names may have any characters in them. */
function lineOf({ token_name, config_id, priority }: Place): string {
  return JSON.stringify([token_name, config_id, priority]);
}

function hasBudget({ models = {}, ...all }: Limits): boolean {
  const limits = [all, ...Object.values(models)];
  return limits.some((own) => own.tokens_per_day !== undefined || own.tokens_per_month !== undefined);
}

/** Those of one priority under the same limits. */
function lineNameOf({ cost, config_id, priority }: WaitingJob): string {
  return JSON.stringify([cost?.model ?? '', config_id, priority]);
}

function goesBefore(one: WaitingJob, other: WaitingJob): boolean {
  return one.priority === other.priority
    ? one.submitted_at <= other.submitted_at
    : one.priority > other.priority;
}

/** No line is empty. */
export function firstOf(jobs: ReadonlySet<WaitingJob>): WaitingJob {
  const [first] = jobs;
  return first!;
}

function weigh({ id, cost, config_id }: Limited): Weighed {
  const given = typeof cost === 'string' ? (JSON.parse(cost) as Cost) : cost;
  const { model, tokens } = given ?? { model: null, tokens: 0 };
  return { id, tokens, names: model === null || model === config_id ? [config_id] : [model, config_id] };
}
