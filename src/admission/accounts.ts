import type { Sql } from '../durable/ports.ts';
import { type Limits, type LimitView, RATE_LIMITS, type RateLimits } from '../protocol/index.ts';
import { Account, type Standing } from './account.ts';
import { BUDGETS, startOf } from './windows.ts';

/** A token with limits. */
export interface Holder {
  /** The token's tenant, as last reported. */
  tenant: string;
  account: Account;
  /** JSON of the token's limits, which every request reports. */
  reported: string;
}

/** The limits of a token, as the gateway last read them. */
export interface ReportedLimits {
  token_name: string | null;
  /** The tenant whose token this is. */
  tenant: string | null;
  /** The limits; null: the token has none, or none any more. */
  limits: Limits | null;
}

/** The token or the tenant that usage was counted for. */
export type Counted = { token_name: string } | { tenant: string };

/** An amount that was counted, with the names that patterns of models are compared with. */
export interface Used {
  model: string;
  config_id: string;
  tokens: number;
  nanodollars: number;
}

/** Usage as it is counted, with whom it is counted for. */
export interface Entry {
  key: { token_name: string; tenant: string; model: string; config_id: string };
  amounts: { input?: number; output?: number; nanodollars?: number };
  /** The job that ends with this entry, if one does; its tokens were counted as they came. */
  job_id?: string;
}

/** A row of the table of limits. */
interface Row {
  token_name: string;
  tenant: string;
  /** JSON of Limits. */
  limits: string;
  /** JSON of AccountState. */
  state: string;
  /** JSON of the admitted requests that had not ended, which `state` has counted: id and epoch ms of each. */
  admitted: string;
}

/** The accounts of tokens with limits, and of their tenants where a token has a budget of its tenant; a row a token. */
export class Accounts {
  readonly #sql: Sql;
  readonly #now: () => number;
  readonly #usedSince: (whose: Counted, from: number) => Used[];
  readonly #addRunning: (tenant: string, account: Account) => void;
  readonly #tokens = new Map<string, Holder>();
  /**
   * Accounts by tenant; each has all that the tenant's tokens with limits run, and all that was counted for the tenant.
   */
  readonly #tenants = new Map<string, Account>();

  /**
   * @param usedSince returns what was counted since a time, epoch ms, at which a day begins
   * @param addRunning adds to a tenant's new account what its tokens with limits run
   */
  constructor(
    sql: Sql,
    now: () => number,
    usedSince: (whose: Counted, from: number) => Used[],
    addRunning: (tenant: string, account: Account) => void,
  ) {
    this.#sql = sql;
    this.#now = now;
    this.#usedSince = usedSince;
    this.#addRunning = addRunning;
  }

  /** Reads all tokens as they were written, when the queue starts. @returns the admitted requests of each */
  restore(): { token_name: string; requests: [id: string, at: number][] }[] {
    const rows = this.#sql.exec(`SELECT token_name, tenant, limits, state, admitted FROM limits`);
    return (rows as unknown as Row[]).map(({ token_name, tenant, limits, state, admitted }) => {
      const account = new Account(JSON.parse(limits), JSON.parse(state), this.#now());
      this.#tokens.set(token_name, { tenant, account, reported: limits });
      this.#readBudgets(account, { token_name });
      this.#openTenant(tenant, account.limits);
      return { token_name, requests: JSON.parse(admitted) };
    });
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

  /** Adds a token whose limits come with its next request. */
  add(tokenName: string, tenant: string): void {
    if (this.#tokens.has(tokenName)) return;
    this.#tokens.set(tokenName, { tenant, account: new Account({}), reported: '{}' });
  }

  /** Takes the limits that the gateway reports of a token. @returns whether they are new */
  report(tokenName: string, tenant: string | null | undefined, limits: Limits | null): boolean {
    const known = this.#tokens.get(tokenName);
    const whose = tenant ?? known?.tenant ?? '';
    if (!known && limits === null) return false;
    const reported = JSON.stringify(limits);
    if (known?.tenant === whose && known.reported === reported) return false;
    const holder = known ?? { tenant: whose, account: new Account({}), reported };
    [holder.tenant, holder.reported] = [whose, reported];
    // A token without limits holds nothing back: all of its jobs are admitted.
    holder.account.setLimits(limits ?? {}, this.#now());
    this.#tokens.set(tokenName, holder);
    this.#readBudgets(holder.account, { token_name: tokenName });
    this.#openTenant(whose, holder.account.limits);
    return true;
  }

  /** Charges usage as it is counted. @param at epoch ms at which it was counted @returns whether its token has limits */
  charge({ key, amounts, job_id }: Entry, at: number): boolean {
    const { input = 0, output = 0, nanodollars = 0 } = amounts;
    const used = { tokens: input + output, nanodollars };
    if (used.tokens === 0 && nanodollars === 0) return false;
    const { token_name, tenant, model, config_id } = key;
    const account = this.#tokens.get(token_name)?.account;
    for (const one of [account, this.#tenants.get(tenant)]) one?.charge([model, config_id], used, at, job_id);
    return account !== undefined;
  }

  /** Writes a token's row. @param requests the admitted requests of the token */
  write(tokenName: string, requests: readonly [id: string, at: number][]): void {
    const { account, tenant } = this.#tokens.get(tokenName)!;
    this.#sql.exec(
      `INSERT OR REPLACE INTO limits (token_name, tenant, limits, state, admitted) VALUES (?, ?, ?, ?, ?)`,
      tokenName,
      tenant,
      JSON.stringify(account.limits),
      JSON.stringify(account.state(this.#now())),
      JSON.stringify(requests),
    );
  }

  /** Deletes a token that has no limits any more. */
  delete(tokenName: string): void {
    this.#sql.exec(`DELETE FROM limits WHERE token_name = ?`, tokenName);
    this.#tokens.delete(tokenName);
  }

  /**
   * Returns how every token with limits stands, and how its tenant stands to the token's budgets of its tenant.
   * @param heldOf returns how many jobs of a token are held back
   */
  views(heldOf: (tokenName: string) => number): LimitView[] {
    const now = this.#now();
    return [...this.#tokens].flatMap(([token_name, { account, tenant }]) => {
      const own = account.standings(now).map((standing) => {
        const held = standing.models === null ? heldOf(token_name) : 0;
        return viewOf(standing, { token_name, tenant: null, held });
      });
      const budgets = account.limits.tenant;
      const all = budgets && this.#tenants.get(tenant)?.standings(now)[0];
      const ofTenant = all ? [viewOf({ ...all, limits: budgets }, { token_name, tenant, held: 0 })] : [];
      return [...own, ...ofTenant].filter((view) => view !== null);
    });
  }

  /** Opens a tenant's account at its first budget; what its tokens with limits run counts from then on. */
  #openTenant(tenant: string, limits: Limits): void {
    if (!limits.tenant || this.#tenants.has(tenant)) return;
    const account = new Account({});
    this.#tenants.set(tenant, account);
    this.#addRunning(tenant, account);
    this.#readBudgets(account, { tenant });
  }

  /** Sets what was used since the day and the month began. */
  #readBudgets(account: Account, whose: Counted): void {
    if ('token_name' in whose && !hasBudget(account.limits)) return;
    const now = this.#now();
    for (const unit of ['day', 'month'] as const) {
      const used = this.#usedSince(whose, startOf(unit, now));
      const named = used.map(({ model, config_id, ...amounts }) => ({
        names: [model, config_id],
        ...amounts,
      }));
      account.setUsed(unit, named, now);
    }
  }
}

/** Returns how a token stands to its limits, for all models or those of one pattern; null if it has none there. */
function viewOf(
  { models, limits, used }: Standing,
  { token_name, tenant, held }: Pick<LimitView, 'token_name' | 'tenant' | 'held'>,
): LimitView | null {
  if (Object.keys(limits).length === 0) return null;
  const each = RATE_LIMITS.map((name) => [name, { used: used[name], limit: limits[name] ?? null }]);
  const standing = Object.fromEntries(each) as Pick<LimitView, keyof RateLimits>;
  return { token_name, tenant, models, ...standing, held };
}

function hasBudget({ models = {}, ...all }: Limits): boolean {
  const limits = [all, ...Object.values(models)];
  return limits.some((own) => BUDGETS.some((name) => own[name] !== undefined));
}
