import type { Account, Rates, Weighed } from '../limits/account.ts';
import { longer, type OverLimit } from '../limits/scope.ts';
import type { ToldLimits } from '../rpc.ts';
import { deleteLimits, readLimits, writeLimits } from '../store/limits-table.ts';
import type { Ports } from '../store/ports.ts';
import type { Used } from '../store/usage-table.ts';
import { EarlierRequests } from './earlier-requests.ts';
import type { Cost } from './job.ts';
import { type Counted, type Holder, LimitHolders } from './limit-holders.ts';
import type { UsageEntry } from './usage-entry.ts';

/** What limits look at of a job of either mode. */
export interface Limited {
  id: string;
  token_name: string | null;
  config_id: string;
  /** Or its JSON; null: its token had no limits when it was submitted. */
  cost: Cost | string | null;
}

/** A request that is let in, or a stored job. */
interface LetIn {
  token_name: string;
  tenant: string;
  weighed: Weighed;
  /** Epoch ms; null: it is a stored job, whose row tells that it is counted. */
  at: number | null;
}

/**
 * What tokens with limits have used and may use, and their tenants where a token has a budget of its tenant. What is used
 * is written together with the usage that it comes from (UsageBook), and which requests it has counted that go on; whom
 * they have let in of stored jobs their rows tell, and which requests from before a restart run their workers.
 */
export class LimitAccounts {
  readonly #ports: Ports;
  readonly #holders: LimitHolders;
  /** Tokens of which something is to be written. */
  readonly #changed = new Set<string>();
  /** By job: whom it was let in for. */
  readonly #letIn = new Map<string, LetIn>();
  /** Requests of before a restart: who was let in, which workers still run, and workers that may tell of more. */
  readonly earlier: EarlierRequests;
  #whenChanged: (isStored: boolean) => void = () => {};

  constructor(ports: Ports) {
    this.#ports = ports;
    this.earlier = new EarlierRequests(ports.now);
    const addRunning = (tenant: string, account: Account) => {
      for (const running of this.#letIn.values())
        if (running.tenant === tenant) account.letIn(running.weighed, null);
    };
    this.#holders = new LimitHolders(ports, addRunning);
    for (const { token_name, tenant, limits, state, let_in } of readLimits(ports.sql)) {
      this.#holders.restore(token_name, { tenant, told: limits, state });
      this.earlier.letIn(token_name, JSON.parse(let_in));
    }
  }

  /** @param unwritten what the usage book has counted and not written yet */
  set unwritten(unwritten: (counted: Counted) => Used[]) {
    this.#holders.unwritten = unwritten;
  }

  /** @param write the usage book has something to write, and when: with the commit of a stored job, or soon */
  set whenChanged(write: (isStored: boolean) => void) {
    this.#whenChanged = write;
  }

  /** What the gateway says of a token; what it said last counts for all that it has submitted. */
  tell({ token_name, tenant, limits }: Partial<ToldLimits>): void {
    if (!token_name || limits === undefined) return;
    if (this.#holders.tell(token_name, tenant, limits)) this.#change(token_name, true);
  }

  /** What keeps it from being let in now; null: nothing does, or its token has no limits. */
  over(job: Limited): OverLimit | null {
    const holder = this.#holderOf(job);
    if (!holder || Object.keys(holder.account.limits).length === 0) return null;
    const opens_at = this.earlier.unknownUntil;
    if (opens_at !== null) return { limit: 'unknown', most: 0, models: null, tenant: null, opens_at };
    if (this.letInBefore(job) !== null) return null;
    const [weighed, now] = [weigh(job), this.#ports.now()];
    const { account, tenant } = holder;
    const ofTenant =
      this.#holders.ofTenant(tenant)?.overBudget(account.limits.tenant ?? {}, tenant, now) ?? null;
    return longer(account.over(weighed, now), ofTenant);
  }

  /** Lets it in, if nothing keeps it. @returns what does */
  letIn(job: Limited): OverLimit | null {
    const over = this.over(job);
    if (over === null) this.#enter(job, this.letInAt(job), this.letInBefore(job) !== null);
    return over;
  }

  /** Epoch ms at which a request that is let in now was let in. */
  letInAt(job: Pick<Limited, 'id' | 'token_name'>): number {
    return this.letInBefore(job) ?? this.#ports.now();
  }

  /** Epoch ms at which a request was let in before the queue started, and counted; null: it was not. */
  letInBefore({ id, token_name }: Pick<Limited, 'id' | 'token_name'>): number | null {
    return this.earlier.letInAt(token_name ?? '', id);
  }

  /**
   * The same of a stored job, whose request is written in the commit that gives it to a worker.
   * @param isCounted it was let in before, and is no other request
   */
  letInStored(job: Limited, isCounted: boolean): OverLimit | null {
    const over = this.over(job);
    if (over !== null) return over;
    this.#enter(job, null, isCounted);
    if (!isCounted && this.#letIn.has(job.id)) this.#change(job.token_name!, true);
    return null;
  }

  /**
   * It was let in before and counted, and is again whatever has happened meanwhile.
   * @param at epoch ms of a request; null: it is a stored job
   */
  letInAgain(job: Limited, at: number | null): void {
    this.#enter(job, at, true);
  }

  /** A worker goes on with a request of before the restart. @param letInAt epoch ms */
  resume(job: Limited & { tenant: string }, letInAt: number, workerId: string): void {
    const { id, token_name, tenant } = job;
    if (this.#letIn.has(id) || token_name === null) return;
    // Its limits come with the next request, where they were not written yet.
    this.#holders.add(token_name, tenant);
    this.#enter(job, letInAt, this.letInBefore(job) !== null);
    this.earlier.add(id, workerId);
  }

  /** So many tokens of its attempt have come by now. */
  generated(jobId: string, tokens: number): void {
    for (const account of this.#accountsLetIn(jobId)) account.generated(jobId, tokens, this.#ports.now());
  }

  /** It is over; what it held is free. */
  end(jobId: string): void {
    for (const account of this.#accountsLetIn(jobId)) account.end(jobId, this.#ports.now());
    this.#letIn.delete(jobId);
    this.earlier.delete(jobId);
  }

  /** The same of a request of before the restart, which no job is known of. @returns whether it is one */
  endResumed(jobId: string): boolean {
    const isResumed = this.earlier.delete(jobId);
    if (isResumed) this.end(jobId);
    return isResumed;
  }

  /** It has registered, and goes on with these. */
  heardWorker(workerId: string, running: ReadonlyMap<string, number>): void {
    for (const jobId of this.earlier.heardWorker(workerId, running)) this.end(jobId);
  }

  /** Workers are not back in time: what they went on with holds nothing any more. */
  endLost(): void {
    for (const jobId of this.earlier.takeLost(this.#ports.now())) this.end(jobId);
  }

  /** What was used, as it is written into the usage book. @param at epoch ms at which it was counted */
  charge(entry: UsageEntry, at: number): void {
    if (this.#holders.charge(entry, at)) this.#changed.add(entry.key.token_name);
  }

  /** How every token with limits stands, and its tenant to the budgets that the token has of that. */
  standings(): ReturnType<LimitHolders['standings']> {
    return this.#holders.standings((tokenName) => this.heldOf(tokenName));
  }

  /** Those that a job of these names is under; none where its token has no limits. */
  ratesOf(job: Limited): Rates[] {
    return this.#holderOf(job)?.account.rates(this.#ports.now(), weigh(job).names) ?? [];
  }

  /** In the commit that usage is written in. */
  save(): void {
    const { sql, now } = this.#ports;
    for (const token_name of this.#changed) {
      const { account, tenant } = this.#holders.of(token_name)!;
      const isUnlimited = Object.keys(account.limits).length === 0;
      if (isUnlimited && account.running.length === 0 && this.heldOf(token_name) === 0) {
        deleteLimits(sql, token_name);
        this.#holders.forget(token_name);
        continue;
      }
      const [limits, state] = [JSON.stringify(account.limits), JSON.stringify(account.state(now()))];
      const let_in = JSON.stringify([...this.earlier.allLetIn(token_name), ...this.#requestsOf(account)]);
      writeLimits(sql, { token_name, tenant, limits, state, let_in });
    }
  }

  /** That are let in: id and epoch ms of each. */
  #requestsOf({ running }: Account): [id: string, at: number][] {
    return running.flatMap((id) => {
      const at = this.#letIn.get(id)?.at ?? null;
      return at === null ? [] : [[id, at]];
    });
  }

  saved(): void {
    this.#changed.clear();
  }

  /** Jobs of the token that are held back. */
  protected heldOf(_tokenName: string): number {
    return 0;
  }

  protected get hasLimits(): boolean {
    return this.#holders.size > 0;
  }

  /** Whether something is held back only where this has changed; null: the token has no limits. */
  protected freedOf({ token_name }: Pick<Limited, 'token_name'>): number | null {
    const holder = this.#holders.of(token_name ?? '');
    return holder ? holder.account.freed + (this.#holders.ofTenant(holder.tenant)?.freed ?? 0) : null;
  }

  /** @param at epoch ms; null: it is a stored job @param isCounted it was let in before, and is no other request */
  #enter(job: Limited, at: number | null, isCounted: boolean): void {
    const holder = this.#holderOf(job);
    if (!holder) return;
    const { account, tenant } = holder;
    const [token_name, weighed] = [job.token_name!, weigh(job)];
    const counts = isCounted ? null : (at ?? this.#ports.now());
    account.letIn(weighed, counts);
    this.#holders.ofTenant(tenant)?.letIn(weighed, counts);
    this.#letIn.set(weighed.id, { token_name, tenant, weighed, at });
    if (!isCounted) this.#change(token_name, false);
  }

  #accountsLetIn(jobId: string): Account[] {
    const letIn = this.#letIn.get(jobId);
    if (!letIn) return [];
    const accounts = [this.#holders.of(letIn.token_name)?.account, this.#holders.ofTenant(letIn.tenant)];
    return accounts.filter((account) => account !== undefined);
  }

  /** Undefined: there are no limits that hold for it. */
  #holderOf({ token_name, cost }: Pick<Limited, 'token_name' | 'cost'>): Holder | undefined {
    return token_name === null || cost === null ? undefined : this.#holders.of(token_name);
  }

  #change(tokenName: string, isStored: boolean): void {
    this.#changed.add(tokenName);
    this.#whenChanged(isStored);
  }
}

export function weigh({ id, cost, config_id }: Limited): Weighed {
  const given = typeof cost === 'string' ? (JSON.parse(cost) as Cost) : cost;
  const { model, served, tokens } = given ?? { model: null, tokens: 0 };
  const names = new Set([model, served, config_id].filter((name) => name !== null && name !== undefined));
  return { id, tokens, names: [...names] };
}
