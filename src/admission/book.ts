import type { Sql } from '../durable/ports.ts';
import type { LimitView } from '../protocol/index.ts';
import type { Account, Rates, Weighed } from './account.ts';
import { Accounts, type Counted, type Entry, type ReportedLimits, type Used } from './accounts.ts';
import { EarlierRequests } from './earlier-requests.ts';
import { type Job, weigh } from './job.ts';
import { longer, type OverLimit } from './scope.ts';

/** The fields of a job that limits look at. */
type Limited = Omit<Job, 'priority'>;

/** A request or stored job that is admitted. */
interface Admitted {
  token_name: string;
  tenant: string;
  weighed: Weighed;
  /** The time when the request was admitted, epoch ms; null for a stored job, whose row shows that it is counted. */
  at: number | null;
}

/**
 * Keeps what each admitted job holds of the limits of its token and its tenant, and says which limit forbids another.
 *
 * The book writes used amounts and counted requests together with the usage that they come from. Rows show
 * which stored jobs are admitted, and workers report which requests of before a restart they still run.
 */
export class Book {
  readonly #now: () => number;
  readonly #accounts: Accounts;
  /** Admitted requests and stored jobs, by job id. */
  readonly #admitted = new Map<string, Admitted>();
  /** Tokens whose row is to be written. */
  readonly #changed = new Set<string>();
  /**
   * Requests from before a restart: which were admitted, which workers still run, and which workers may report more.
   */
  readonly earlier: EarlierRequests;
  readonly #heldOf: (tokenName: string) => number;
  /** Makes the usage be written soon, or with the commit of a stored job; set by the code that writes it. */
  whenChanged: (isStored: boolean) => void = () => {};
  /** Returns the usage that is counted and not written yet; set by the code that counts it. */
  unwritten: (whose: Counted) => Used[] = () => [];

  /**
   * @param usedSince returns what is written of the usage of a token or a tenant since a time, epoch ms
   * @param heldOf returns how many jobs of a token are held back
   */
  constructor(
    sql: Sql,
    now: () => number,
    usedSince: (whose: Counted, from: number) => Used[],
    heldOf: (tokenName: string) => number,
  ) {
    this.#now = now;
    this.#heldOf = heldOf;
    this.earlier = new EarlierRequests(now, (jobId) => this.end(jobId));
    this.#accounts = new Accounts(
      sql,
      now,
      (whose, from) => [...usedSince(whose, from), ...this.unwritten(whose)],
      (tenant, account) => {
        for (const admitted of this.#admitted.values())
          if (admitted.tenant === tenant) account.admit(admitted.weighed, null);
      },
    );
    for (const { token_name, requests } of this.#accounts.restore())
      this.earlier.admitted(token_name, requests);
  }

  /** Says whether no token has limits. */
  get isEmpty(): boolean {
    return this.#accounts.size === 0;
  }

  /**
   * Returns the limit that forbids admitting the job now; null if none does or its token has no limits.
   * @param isCounted whether the job was admitted before, so that it counts among the requests of its minute already
   */
  over(job: Limited, isCounted = false): OverLimit | null {
    const holder = this.#holderOf(job);
    if (!holder || Object.keys(holder.account.limits).length === 0) return null;
    const opens_at = this.earlier.unknownUntil;
    if (opens_at !== null) return { limit: 'unknown', most: 0, models: null, tenant: null, opens_at };
    // Others may have been admitted since the job was, unless it still holds what it held.
    if (isCounted && this.#admitted.has(job.id)) return null;
    const [weighed, now] = [weigh(job), this.#now()];
    const { account, tenant } = holder;
    const ofTenant =
      this.#accounts.ofTenant(tenant)?.overBudget(account.limits.tenant ?? {}, tenant, now) ?? null;
    return longer(account.over(weighed, now, isCounted), ofTenant);
  }

  /** Admits a job. @param at epoch ms; null for a stored job @param isCounted whether its request is counted already */
  enter(job: Limited, at: number | null, isCounted: boolean): void {
    const holder = this.#holderOf(job);
    if (!holder) return;
    const { account, tenant } = holder;
    const [token_name, weighed] = [job.token_name!, weigh(job)];
    const counts = isCounted ? null : (at ?? this.#now());
    account.admit(weighed, counts);
    this.#accounts.ofTenant(tenant)?.admit(weighed, counts);
    this.#admitted.set(weighed.id, { token_name, tenant, weighed, at });
    // The request of a stored job is written in the commit that gives the job to a worker.
    if (!isCounted) this.#change(token_name, at === null);
  }

  /** Returns when a request that is admitted now was first admitted, epoch ms. */
  admittedAt(job: Limited): number {
    return this.earlier.admittedAt(job) ?? this.#now();
  }

  /** Frees what an admitted job holds. */
  end(jobId: string): void {
    for (const account of this.#accountsOf(jobId)) account.end(jobId, this.#now());
    this.#admitted.delete(jobId);
  }

  /** Takes the limits that the gateway reports of a token; the newest count for all that the token has submitted. */
  report({ token_name, tenant, limits }: Partial<ReportedLimits>): void {
    if (!token_name || limits === undefined) return;
    if (this.#accounts.report(token_name, tenant, limits)) this.#change(token_name, true);
  }

  /** Admits a request from before the restart that a worker goes on with. @param admittedAt epoch ms */
  resume(job: Limited & { tenant: string }, admittedAt: number, workerId: string): void {
    const { id, token_name, tenant } = job;
    if (this.#admitted.has(id) || token_name === null) return;
    // A token whose limits are not stored yet gets them with its next request.
    this.#accounts.add(token_name, tenant);
    this.enter(job, admittedAt, this.earlier.admittedAt(job) !== null);
    this.earlier.add(id, workerId);
  }

  /** Notes how many tokens of the job's attempt have come so far. */
  generated(jobId: string, tokens: number): void {
    for (const account of this.#accountsOf(jobId)) account.generated(jobId, tokens, this.#now());
  }

  /** Charges usage as it is counted. @param at epoch ms at which it was counted */
  charge(entry: Entry, at: number): void {
    if (this.#accounts.charge(entry, at)) this.#changed.add(entry.key.token_name);
  }

  /** Writes the changed tokens, in the commit that writes usage. */
  save(): void {
    for (const token_name of this.#changed) {
      const account = this.#accounts.of(token_name)?.account;
      // A token that is not known was deleted by a save that was undone, so its row is there again.
      if (account === undefined || this.#isOver(token_name, account)) this.#accounts.delete(token_name);
      else
        this.#accounts.write(token_name, [
          ...this.earlier.allAdmitted(token_name),
          ...this.#requestsOf(account),
        ]);
    }
  }

  saved(): void {
    this.#changed.clear();
  }

  /** Says whether nothing is left to know of a token: it has no limits any more, and no job. */
  #isOver(tokenName: string, { limits, running }: Account): boolean {
    return Object.keys(limits).length === 0 && running.length === 0 && this.#heldOf(tokenName) === 0;
  }

  /** Returns how every token with limits stands, and how its tenant stands to the token's budgets of its tenant. */
  views(): LimitView[] {
    return this.#accounts.views(this.#heldOf);
  }

  /** Returns the rates that limit such a job; none if its token has no limits. */
  ratesOf(job: Limited): Rates[] {
    return this.#holderOf(job)?.account.rates(this.#now(), weigh(job).names) ?? [];
  }

  /** Returns a number that changes when a limit may have gained room other than by time; null without limits. */
  freedOf({ token_name }: Pick<Job, 'token_name'>): number | null {
    const holder = this.#accounts.of(token_name ?? '');
    return holder ? holder.account.freed + (this.#accounts.ofTenant(holder.tenant)?.freed ?? 0) : null;
  }

  /** Returns the admitted requests of an account: id and epoch ms of each. */
  #requestsOf({ running }: Account): [id: string, at: number][] {
    return running.flatMap((id) => {
      const at = this.#admitted.get(id)?.at ?? null;
      return at === null ? [] : [[id, at]];
    });
  }

  #accountsOf(jobId: string): Account[] {
    const admitted = this.#admitted.get(jobId);
    if (!admitted) return [];
    const { token_name, tenant } = admitted;
    const accounts = [this.#accounts.of(token_name)?.account, this.#accounts.ofTenant(tenant)];
    return accounts.filter((account) => account !== undefined);
  }

  /** Returns the holder whose limits apply to the job; undefined if there is none. */
  #holderOf({ token_name, extras }: Pick<Job, 'token_name' | 'extras'>) {
    return token_name === null || extras.cost === undefined ? undefined : this.#accounts.of(token_name);
  }

  #change(tokenName: string, isStored: boolean): void {
    this.#changed.add(tokenName);
    this.whenChanged(isStored);
  }
}
