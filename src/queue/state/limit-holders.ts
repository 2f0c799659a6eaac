import type { Limits } from '../../protocol/index.ts';
import { Account, type Standing } from '../limits/account.ts';
import { BUDGETS, startOf } from '../limits/calendar-sum.ts';
import type { UsageKey } from '../rpc.ts';
import type { Ports } from '../store/ports.ts';
import { type Used, usedBy } from '../store/usage-table.ts';
import type { UsageEntry } from './usage-entry.ts';

/** A token with limits. */
export interface Holder {
  /** Whose it is, as it was last told. */
  tenant: string;
  account: Account;
  /** JSON of its limits: every request tells them. */
  told: string;
}

/** What was counted of a token or of a tenant. */
export type Counted = Partial<Pick<UsageKey, 'token_name' | 'tenant'>>;

/** The accounts of tokens with limits, and of their tenants where a token has a budget of its tenant. */
export class LimitHolders {
  readonly #ports: Ports;
  readonly #addRunning: (tenant: string, account: Account) => void;
  readonly #tokens = new Map<string, Holder>();
  /** By tenant; all that its tokens with limits run is in it, and all that was counted for it. */
  readonly #tenants = new Map<string, Account>();
  /** What the usage book has counted and not written yet. */
  unwritten: (counted: Counted) => Used[] = () => [];

  /** @param addRunning adds to a tenant's new account what runs by its tokens with limits */
  constructor(ports: Ports, addRunning: (tenant: string, account: Account) => void) {
    this.#ports = ports;
    this.#addRunning = addRunning;
  }

  get size(): number {
    return this.#tokens.size;
  }

  of(tokenName: string): Holder | undefined {
    return this.#tokens.get(tokenName);
  }

  ofTenant(tenant: string): Account | undefined {
    return this.#tenants.get(tenant);
  }

  /** At the start: a token as it was written. @param state of its account, as JSON */
  restore(tokenName: string, { tenant, told, state }: { tenant: string; told: string; state: string }): void {
    const account = new Account(JSON.parse(told), JSON.parse(state), this.#ports.now());
    this.#tokens.set(tokenName, { tenant, account, told });
    this.#readBudgets(account, { token_name: tokenName });
    this.#openTenant(tenant, account.limits);
  }

  /** A token whose limits come with its next request. */
  add(tokenName: string, tenant: string): void {
    if (this.#tokens.has(tokenName)) return;
    this.#tokens.set(tokenName, { tenant, account: new Account({}), told: '{}' });
  }

  /** What the gateway says of a token. @param limits null: it has none @returns whether that is new */
  tell(tokenName: string, tenant: string | null | undefined, limits: Limits | null): boolean {
    const known = this.#tokens.get(tokenName);
    const whose = tenant ?? known?.tenant ?? '';
    if (!known && limits === null) return false;
    const told = JSON.stringify(limits);
    if (known?.tenant === whose && known.told === told) return false;
    const holder = known ?? { tenant: whose, account: new Account({}), told };
    [holder.tenant, holder.told] = [whose, told];
    // Without limits nothing is held back: `letIn` lets all in.
    holder.account.setLimits(limits ?? {}, this.#ports.now());
    this.#tokens.set(tokenName, holder);
    this.#readBudgets(holder.account, { token_name: tokenName });
    this.#openTenant(whose, holder.account.limits);
    return true;
  }

  forget(tokenName: string): void {
    this.#tokens.delete(tokenName);
  }

  /** What was used, as it is written into the usage book. @returns whether its token is among them */
  charge({ key, amounts, job_id }: UsageEntry, at: number): boolean {
    const { input = 0, output = 0, nanodollars = 0 } = amounts;
    const used = { tokens: input + output, nanodollars };
    if (used.tokens === 0 && nanodollars === 0) return false;
    const { token_name, tenant, model, config_id } = key;
    const account = this.#tokens.get(token_name)?.account;
    for (const one of [account, this.#tenants.get(tenant)]) one?.charge([model, config_id], used, at, job_id);
    return account !== undefined;
  }

  /**
   * How every token with limits stands, and its tenant to the budgets that the token has of that.
   * @param heldOf jobs of a token that are held back
   */
  *standings(heldOf: (tokenName: string) => number): Generator<{
    token_name: string;
    tenant: string | null;
    held: number;
    standings: Standing[];
  }> {
    const now = this.#ports.now();
    for (const [token_name, { account, tenant }] of this.#tokens) {
      yield { token_name, tenant: null, held: heldOf(token_name), standings: account.standings(now) };
      const budgets = account.limits.tenant;
      const all = budgets && this.#tenants.get(tenant)?.standings(now);
      if (all) yield { token_name, tenant, held: 0, standings: [{ ...all[0]!, limits: budgets }] };
    }
  }

  /** The first budget of a tenant: what runs by its tokens with limits counts from now on. */
  #openTenant(tenant: string, limits: Limits): void {
    if (!limits.tenant || this.#tenants.has(tenant)) return;
    const account = new Account({});
    this.#tenants.set(tenant, account);
    this.#addRunning(tenant, account);
    this.#readBudgets(account, { tenant });
  }

  /** What was used since the day and the month began: with all that is counted and not written yet. */
  #readBudgets(account: Account, whose: Counted): void {
    if ('token_name' in whose && !hasBudget(account.limits)) return;
    const now = this.#ports.now();
    const unwritten = this.unwritten(whose);
    for (const unit of ['day', 'month'] as const) {
      const used = [...usedBy(this.#ports.sql, whose, startOf(unit, now)), ...unwritten];
      const named = used.map(({ model, config_id, ...amounts }) => ({
        names: [model, config_id],
        ...amounts,
      }));
      account.setUsed(unit, named, now);
    }
  }
}

function hasBudget({ models = {}, ...all }: Limits): boolean {
  const limits = [all, ...Object.values(models)];
  return limits.some((own) => BUDGETS.some((name) => own[name] !== undefined));
}
