import type { Account, Rates, Weighed } from '../../admission/account.ts';
import { longer, type OverLimit } from '../../admission/scope.ts';
import type { UsageEntry, Used } from '../projections/usage-table.ts';
import type { JobExtras, ToldLimits } from '../rpc.ts';
import { deleteLimits, readLimits, writeLimits } from '../store/limits-table.ts';
import type { Ports } from '../store/ports.ts';
import { EarlierRequests } from './earlier-requests.ts';
import { type Counted, type Holder, LimitHolders } from './limit-holders.ts';

/** The fields that limits look at of a job of either mode. */
export interface Limited {
  id: string;
  token_name: string | null;
  config_id: string;
  /** Without a cost, its token had no limits when the job was submitted. */
  extras: Pick<JobExtras, 'cost'>;
}

/** A request or stored job that is admitted. */
interface LetIn {
  token_name: string;
  tenant: string;
  weighed: Weighed;
  /** When the request was admitted, epoch ms; null for a stored job, whose row shows that it is counted. */
  at: number | null;
}

/**
 * Keeps what tokens with limits have used and may use, and the same of tenants where a token has a budget of its
 * tenant. What is used, and the counted requests that go on, are written together with the usage that they come from
 * (UsageBook). Rows show which stored jobs are admitted, and workers report which requests from before a restart they
 * run.
 */
export class LimitAccounts {
  readonly #ports: Ports;
  readonly #holders: LimitHolders;
  /** Tokens whose row is to be written. */
  readonly #changed = new Set<string>();
  /** Admitted requests and stored jobs, by job id. */
  readonly #letIn = new Map<string, LetIn>();
  /**
   * Requests from before a restart: which were admitted, which workers still run, and which workers may report more.
   */
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
    for (const { token_name, tenant, limits, state, admitted } of readLimits(ports.sql)) {
      this.#holders.restore(token_name, { tenant, told: limits, state });
      this.earlier.letIn(token_name, JSON.parse(admitted));
    }
  }

  /** @param unwritten returns what the usage book has counted and not written yet */
  set unwritten(unwritten: (counted: Counted) => Used[]) {
    this.#holders.unwritten = unwritten;
  }

  /** @param write makes the usage book write soon, or with the commit of a stored job */
  set whenChanged(write: (isStored: boolean) => void) {
    this.#whenChanged = write;
  }

  /** Takes the limits that the gateway reports of a token; the newest count for all that the token has submitted. */
  tell({ token_name, tenant, limits }: Partial<ToldLimits>): void {
    if (!token_name || limits === undefined) return;
    if (this.#holders.tell(token_name, tenant, limits)) this.#change(token_name, true);
  }

  /** Returns the limit that forbids admitting the job now; null if none does or its token has no limits. */
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

  /** Admits the job if no limit forbids it. @returns the limit that does, or null */
  letIn(job: Limited): OverLimit | null {
    const over = this.over(job);
    if (over === null) this.#enter(job, this.letInAt(job), this.letInBefore(job) !== null);
    return over;
  }

  /** Returns when a request that is admitted now was first admitted, epoch ms. */
  letInAt(job: Pick<Limited, 'id' | 'token_name'>): number {
    return this.letInBefore(job) ?? this.#ports.now();
  }

  /** Returns when a request was admitted and counted before the queue started, epoch ms; null if it was not. */
  letInBefore({ id, token_name }: Pick<Limited, 'id' | 'token_name'>): number | null {
    return this.earlier.letInAt(token_name ?? '', id);
  }

  /**
   * Admits a stored job if no limit forbids it; its request is written in the commit that gives the job to a worker.
   * @param isCounted whether the job was admitted before, so that its request is counted already
   * @returns the limit that forbids it, or null
   */
  letInStored(job: Limited, isCounted: boolean): OverLimit | null {
    const over = this.over(job);
    if (over !== null) return over;
    this.#enter(job, null, isCounted);
    if (!isCounted && this.#letIn.has(job.id)) this.#change(job.token_name!, true);
    return null;
  }

  /**
   * Re-admits a job that was admitted before, whatever the limits are now, without counting it again.
   * @param at when the request was admitted, epoch ms; null for a stored job
   */
  letInAgain(job: Limited, at: number | null): void {
    this.#enter(job, at, true);
  }

  /** Admits a request from before the restart that a worker goes on with. @param letInAt epoch ms */
  resume(job: Limited & { tenant: string }, letInAt: number, workerId: string): void {
    const { id, token_name, tenant } = job;
    if (this.#letIn.has(id) || token_name === null) return;
    // A token whose limits are not stored yet gets them with its next request.
    this.#holders.add(token_name, tenant);
    this.#enter(job, letInAt, this.letInBefore(job) !== null);
    this.earlier.add(id, workerId);
  }

  /** Notes how many tokens of the job's attempt have come so far. */
  generated(jobId: string, tokens: number): void {
    for (const account of this.#accountsLetIn(jobId)) account.generated(jobId, tokens, this.#ports.now());
  }

  /** Frees what a job held that is over. */
  end(jobId: string): void {
    for (const account of this.#accountsLetIn(jobId)) account.end(jobId, this.#ports.now());
    this.#letIn.delete(jobId);
    this.earlier.delete(jobId);
  }

  /**
   * Frees what a request from before the restart held, if no job is known of it.
   * @returns whether it is such a request
   */
  endResumed(jobId: string): boolean {
    const isResumed = this.earlier.delete(jobId);
    if (isResumed) this.end(jobId);
    return isResumed;
  }

  /**
   * Ends the earlier requests that a worker does not go on with, once it has registered.
   * @param running those it goes on with
   */
  heardWorker(workerId: string, running: ReadonlyMap<string, number>): void {
    for (const jobId of this.earlier.heardWorker(workerId, running)) this.end(jobId);
  }

  /** Ends the earlier requests of workers that are not back in time. */
  endLost(): void {
    for (const jobId of this.earlier.takeLost(this.#ports.now())) this.end(jobId);
  }

  /** Charges usage as it is counted in the usage book. @param at epoch ms at which it was counted */
  charge(entry: UsageEntry, at: number): void {
    if (this.#holders.charge(entry, at)) this.#changed.add(entry.key.token_name);
  }

  /** Returns how every token with limits stands, and how its tenant stands to the token's budgets of its tenant. */
  standings(): ReturnType<LimitHolders['standings']> {
    return this.#holders.standings((tokenName) => this.heldOf(tokenName));
  }

  /** Returns the rates that limit such a job; none if its token has no limits. */
  ratesOf(job: Limited): Rates[] {
    return this.#holderOf(job)?.account.rates(this.#ports.now(), weigh(job).names) ?? [];
  }

  /** Writes the changed tokens, in the commit that writes usage. */
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
      const admitted = JSON.stringify([...this.earlier.allLetIn(token_name), ...this.#requestsOf(account)]);
      writeLimits(sql, { token_name, tenant, limits, state, admitted });
    }
  }

  /** Returns the admitted requests of an account: id and epoch ms of each. */
  #requestsOf({ running }: Account): [id: string, at: number][] {
    return running.flatMap((id) => {
      const at = this.#letIn.get(id)?.at ?? null;
      return at === null ? [] : [[id, at]];
    });
  }

  saved(): void {
    this.#changed.clear();
  }

  /** Returns how many jobs of the token are held back. */
  protected heldOf(_tokenName: string): number {
    return 0;
  }

  protected get hasLimits(): boolean {
    return this.#holders.size > 0;
  }

  /** Returns a number that changes when a limit may have gained room other than by time; null without limits. */
  protected freedOf({ token_name }: Pick<Limited, 'token_name'>): number | null {
    const holder = this.#holders.of(token_name ?? '');
    return holder ? holder.account.freed + (this.#holders.ofTenant(holder.tenant)?.freed ?? 0) : null;
  }

  /** Admits a job. @param at epoch ms; null for a stored job @param isCounted whether its request is counted already */
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

  /** Returns the holder whose limits apply to the job; undefined if there is none. */
  #holderOf({ token_name, extras }: Pick<Limited, 'token_name' | 'extras'>): Holder | undefined {
    return token_name === null || extras.cost === undefined ? undefined : this.#holders.of(token_name);
  }

  #change(tokenName: string, isStored: boolean): void {
    this.#changed.add(tokenName);
    this.#whenChanged(isStored);
  }
}

export function weigh({ id, extras, config_id }: Limited): Weighed {
  const { model, served, tokens } = extras.cost ?? { model: null, tokens: 0 };
  const names = new Set([model, served, config_id].filter((name) => name !== null && name !== undefined));
  return { id, tokens, names: [...names] };
}
