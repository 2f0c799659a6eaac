import { Account, type Standing } from '../../admission/account.ts';
import { BUDGETS, startOf } from '../../admission/windows.ts';
import type { Limits } from '../../protocol/index.ts';
import type { UsageEntry } from '../projections/usage-table.ts';
import { type Used, usedBy } from '../projections/usage-table.ts';
import type { UsageKey } from '../rpc.ts';
import type { Ports } from '../store/ports.ts';

/** A token with limits. */
export interface Holder {
  /** The token's tenant, as last reported. */
  tenant: string;
  account: Account;
  /** JSON of the token's limits, which every request reports. */
  told: string;
}

/** The token or the tenant that usage was counted for. */
export type Counted = Partial<Pick<UsageKey, 'token_name' | 'tenant'>>;

/** The accounts of tokens with limits, and of their tenants where a token has a budget of its tenant. */
export class LimitHolders {
  readonly #ports: Ports;
  readonly #addRunning: (tenant: string, account: Account) => void;
  readonly #tokens = new Map<string, Holder>();
  /**
   * Accounts by tenant; each has all that the tenant's tokens with limits run, and all that was counted for the tenant.
   */
  readonly #tenants = new Map<string, Account>();
  /** Returns what the usage book has counted and not written yet. */
  unwritten: (counted: Counted) => Used[] = () => [];

  /** @param addRunning adds to a tenant's new account what its tokens with limits run */
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

  /** Restores a token as it was written, when the queue starts. @param state JSON of its account's state */
  restore(tokenName: string, { tenant, told, state }: { tenant: string; told: string; state: string }): void {
    const account = new Account(JSON.parse(told), JSON.parse(state), this.#ports.now());
    this.#tokens.set(tokenName, { tenant, account, told });
    this.#readBudgets(account, { token_name: tokenName });
    this.#openTenant(tenant, account.limits);
  }

  /** Adds a token whose limits come with its next request. */
  add(tokenName: string, tenant: string): void {
    if (this.#tokens.has(tokenName)) return;
    this.#tokens.set(tokenName, { tenant, account: new Account({}), told: '{}' });
  }

  /**
   * Takes the limits that the gateway reports of a token.
   * @param limits null if it has none
   * @returns whether they are new
   */
  tell(tokenName: string, tenant: string | null | undefined, limits: Limits | null): boolean {
    const known = this.#tokens.get(tokenName);
    const whose = tenant ?? known?.tenant ?? '';
    if (!known && limits === null) return false;
    const told = JSON.stringify(limits);
    if (known?.tenant === whose && known.told === told) return false;
    const holder = known ?? { tenant: whose, account: new Account({}), told };
    [holder.tenant, holder.told] = [whose, told];
    // A token without limits holds nothing back: `LimitAccounts.letIn` admits all of its jobs.
    holder.account.setLimits(limits ?? {}, this.#ports.now());
    this.#tokens.set(tokenName, holder);
    this.#readBudgets(holder.account, { token_name: tokenName });
    this.#openTenant(whose, holder.account.limits);
    return true;
  }

  forget(tokenName: string): void {
    this.#tokens.delete(tokenName);
  }

  /** Charges usage as it is counted in the usage book. @returns whether its token has limits */
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
   * Returns how every token with limits stands, and how its tenant stands to the token's budgets of its tenant.
   * @param heldOf returns how many jobs of a token are held back
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

  /** Opens a tenant's account at its first budget; what its tokens with limits run counts from then on. */
  #openTenant(tenant: string, limits: Limits): void {
    if (!limits.tenant || this.#tenants.has(tenant)) return;
    const account = new Account({});
    this.#tenants.set(tenant, account);
    this.#addRunning(tenant, account);
    this.#readBudgets(account, { tenant });
  }

  /** Sets what was used since the day and the month began, including what is counted and not written yet. */
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
