import type { Limits } from '../../protocol/index.ts';
import { Account, type OverLimit, type Standing, type Weighed } from '../limits/account.ts';
import type { UsageAmounts, UsageKey } from '../rpc.ts';
import { countHeld, deleteLimits, letInJobs, readLimits, writeLimits } from '../store/limits-table.ts';
import type { Ports } from '../store/ports.ts';
import type { Cost, WaitingJob } from './job.ts';
import { add } from './pending.ts';

/** What limits look at of a job of either mode. */
interface Limited {
  id: string;
  token_name: string | null;
  config_id: string;
  /** Or its JSON; null: its token had no limits when it was submitted. */
  cost: Cost | string | null;
}

/** A pool, and a token that has jobs in it. */
type Line = `${string}\n${string}`;

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
  /** Requests that are held back, by token, in their order. */
  readonly #waiting = new Map<string, Set<WaitingJob>>();
  /** Stored jobs that are held back, by token and pool: how many of each priority. */
  readonly #held = new Map<Line, Map<number, number>>();
  /** The one stored job of a token in a pool that is let in and was given to nobody yet. */
  readonly #next = new Map<Line, string>();
  /** By token, epoch ms: whom it had let in until then stands in what was read at the start. */
  readonly #readAt = new Map<string, number>();
  /** Epoch ms at which the next one that is held back may be let in; null: something has to end first. */
  opensAt: number | null = null;
  #whenChanged: (isStored: boolean) => void = () => {};

  constructor(ports: Ports) {
    this.#ports = ports;
    const now = ports.now();
    for (const { token_name, limits, state, saved_at } of readLimits(ports.sql)) {
      this.#accounts.set(token_name, new Account(JSON.parse(limits), JSON.parse(state), now));
      this.#readAt.set(token_name, saved_at);
    }
    if (this.#accounts.size === 0) return;
    for (const { token_name, config_id, priority, n } of countHeld(ports.sql)) {
      this.#countHeld({ token_name, config_id, priority }, n);
    }
    for (const job of letInJobs(ports.sql)) {
      this.letInAgain(job);
      if (job.waits) this.#next.set(lineOf(job), job.id);
    }
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
    if (account) account.limits = limits ?? {};
    else this.#accounts.set(tokenName, new Account(limits ?? {}));
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

  /** It is over; what it held is free. */
  end(jobId: string): void {
    const tokenName = this.#letIn.get(jobId);
    if (tokenName === undefined) return;
    this.#letIn.delete(jobId);
    this.#resumed.delete(jobId);
    this.#accounts.get(tokenName)?.end(jobId);
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
    const jobs = this.#waiting.get(job.token_name!) ?? new Set();
    this.#waiting.set(job.token_name!, jobs.add(job));
  }

  /** It is let in, or waits no more. */
  unhold(job: WaitingJob): void {
    const jobs = this.#waiting.get(job.token_name ?? '');
    if (jobs?.delete(job) && jobs.size === 0) this.#waiting.delete(job.token_name!);
  }

  /** Requests that are held back, by token, in their order. */
  waiting(): WaitingJob[][] {
    return [...this.#waiting.values()].map((jobs) => [...jobs]);
  }

  /** The first request of a token that is held back; null: none is. */
  firstWaiting(tokenName: string | null): WaitingJob | null {
    const [first = null] = this.#waiting.get(tokenName ?? '') ?? [];
    return first;
  }

  /** Whether a stored job must be held back: one of its token is let in and waits in its pool, or is held back too. */
  mustHold(job: Pick<Limited, 'token_name' | 'config_id'>): boolean {
    if (!this.#accountOf(job)) return false;
    return this.#next.has(lineOf(job)) || this.#held.has(lineOf(job));
  }

  /** A stored job came to be held back, or was let in or ended. */
  holdStored(job: { token_name: string | null; config_id: string; priority: number }): void {
    this.#countHeld(job, 1);
  }

  unholdStored(job: { token_name: string | null; config_id: string; priority: number }): void {
    this.#countHeld(job, -1);
  }

  /** A stored job is let in, and waits for a slot. */
  waitsForSlot(job: Limited): void {
    if (this.#letIn.has(job.id)) this.#next.set(lineOf(job), job.id);
  }

  /** It waits for no slot any more. */
  leftLine(job: Limited): void {
    if (this.#next.get(lineOf(job)) === job.id) this.#next.delete(lineOf(job));
  }

  /** Where stored jobs are held back and none that was let in waits for a slot. */
  openLines(): { token_name: string; config_id: string }[] {
    const open = [...this.#held.keys()].filter((line) => !this.#next.has(line));
    return open.map((line) => {
      const [token_name = '', config_id = ''] = line.split('\n');
      return { token_name, config_id };
    });
  }

  /** Stored jobs of a pool and a priority that limits hold back. */
  heldOfPool(configId: string, priority: number): number {
    let held = 0;
    for (const [line, jobs] of this.#held)
      if (line.endsWith(`\n${configId}`)) held += jobs.get(priority) ?? 0;
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

  #accountOf({ token_name }: Pick<Limited, 'token_name'>): Account | undefined {
    return token_name === null ? undefined : this.#accounts.get(token_name);
  }

  #heldOf(tokenName: string): number {
    let held = this.#waiting.get(tokenName)?.size ?? 0;
    for (const [line, jobs] of this.#held) {
      if (line.startsWith(`${tokenName}\n`)) for (const n of jobs.values()) held += n;
    }
    return held;
  }

  #countHeld(job: { token_name: string | null; config_id: string; priority: number }, change: number): void {
    const line = lineOf(job);
    const priorities = this.#held.get(line) ?? new Map<number, number>();
    add(priorities, job.priority, change);
    if (priorities.size === 0) this.#held.delete(line);
    else this.#held.set(line, priorities);
  }

  #change(tokenName: string, isStored: boolean): void {
    this.#changed.add(tokenName);
    this.#whenChanged(isStored);
  }
}

function lineOf({ token_name, config_id }: Pick<Limited, 'token_name' | 'config_id'>): Line {
  return `${token_name ?? ''}\n${config_id}`;
}

function weigh({ id, cost, config_id }: Limited): Weighed {
  const given = typeof cost === 'string' ? (JSON.parse(cost) as Cost) : cost;
  const { model, tokens } = given ?? { model: null, tokens: 0 };
  return { id, tokens, names: model === null || model === config_id ? [config_id] : [model, config_id] };
}
