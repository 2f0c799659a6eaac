import { LIMITS, type LimitName, limitWords, RATE_LIMITS } from '../protocol/token-terms.ts';
import type { LimitView, PoolSharing } from '../protocol/tokens.ts';
import * as format from '../show/format.ts';

/** This file combines what the API reports of usage and sharing, and puts it into words. */

/** A sum in the answer of `GET /api/usage`. */
export interface UsageRow {
  /** The beginning of the sum's day or hour, ISO. */
  start: string;
  tenant?: string;
  token_name?: string;
  model?: string;
  config_id?: string;
  requests: number;
  failed: number;
  input: number;
  cached: number;
  output: number;
  wasted: number;
  /** The time for which attempts held slots; `unpriced_slot_ms` is the part on workers whose price is not known. */
  slot_ms: number;
  unpriced_slot_ms: number;
  /** The cost of the part whose price is known, US dollars; null: none is known. */
  dollars: number | null;
}

export interface UsageAnswer {
  usage: UsageRow[];
  total: UsageRow;
  idle: { start: string; config_id: string; dollars: number }[];
  /** The bytes of responses and conversations that are stored now. */
  stored: { tenant: string | null; bytes: number }[];
}

/** The fields by which usage is grouped, by their names in the address. */
export const BY = {
  tenant: 'tenant',
  token_name: 'token',
  model: 'model',
  config_id: 'pool',
  day: 'day',
} as const;
export type By = keyof typeof BY;

/** The months that an export may name: the queue keeps days for 400. */
const MONTHS = 13;

/** Returns the months of UTC whose usage is kept, the present one first: `2026-11`. @param nowMs epoch ms */
export function lastMonths(nowMs: number): string[] {
  const now = new Date(nowMs);
  return Array.from({ length: MONTHS }, (_, ago) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - ago)).toISOString().slice(0, 7),
  );
}

/** One row of the table of usage. */
export interface UsageGroup extends Omit<UsageRow, 'start'> {
  name: string;
  /** Whether the row is the cost of launched machines beyond what jobs used of them, which belongs to nobody. */
  isIdle: boolean;
  /** The row's share of all tokens, from 0 to 1; null: there were none. */
  share: number | null;
  /** The bytes that the tenant has stored now; null: none, or the row is no tenant. */
  stored: number | null;
}

type Amounts = Omit<UsageRow, 'start' | 'tenant' | 'token_name' | 'model' | 'config_id'>;

/**
 * Groups the sums of days: days by time, other groups by tokens, the most first; the idle row is the last. A tenant that
 * used nothing in this time and has something stored is a group too.
 */
export function groupsOf({ usage, total, idle, stored }: UsageAnswer, by: By): UsageGroup[] {
  const groups = Map.groupBy(usage, (row) => (by === 'day' ? row.start.slice(0, 10) : (row[by] ?? '')));
  const bytes = new Map(by === 'tenant' ? stored.map(({ tenant, bytes }) => [tenant ?? '', bytes]) : []);
  for (const name of bytes.keys()) groups.set(name, groups.get(name) ?? []);
  const all = tokensOf(total);
  const rows = [...groups].map(([name, sums]) => {
    const sum = sums.reduce<Amounts>((one, other) => ({ ...other, ...added(one, other) }), NOTHING);
    const share = all === 0 ? null : tokensOf(sum) / all;
    return { ...sum, name, isIdle: false, share, stored: bytes.get(name) ?? null };
  });
  rows.sort((one, other) =>
    by === 'day' ? (one.name < other.name ? 1 : -1) : tokensOf(other) - tokensOf(one),
  );
  const dollars = idle.reduce((sum, one) => sum + one.dollars, 0);
  return dollars > 0
    ? [...rows, { ...NOTHING, name: 'idle', isIdle: true, share: null, stored: null, dollars }]
    : rows;
}

const NOTHING: Amounts = {
  requests: 0,
  failed: 0,
  input: 0,
  cached: 0,
  output: 0,
  wasted: 0,
  slot_ms: 0,
  unpriced_slot_ms: 0,
  dollars: null,
};

function added(one: Amounts, other: Amounts): Amounts {
  const sum = (name: Exclude<keyof Amounts, 'dollars'>) => one[name] + other[name];
  return {
    requests: sum('requests'),
    failed: sum('failed'),
    input: sum('input'),
    cached: sum('cached'),
    output: sum('output'),
    wasted: sum('wasted'),
    slot_ms: sum('slot_ms'),
    unpriced_slot_ms: sum('unpriced_slot_ms'),
    dollars:
      one.dollars === null && other.dollars === null ? null : (one.dollars ?? 0) + (other.dollars ?? 0),
  };
}

function tokensOf({ input, output }: Pick<UsageRow, 'input' | 'output'>): number {
  return input + output;
}

/** Returns a cost: `$3.20`; `unknown`, never zero; `≥ $3.20` if the price of a part is not known. */
export function costInWords({ dollars, slot_ms, unpriced_slot_ms }: Amounts): string {
  if (dollars === null) return slot_ms === 0 ? format.UNKNOWN : 'unknown';
  return unpriced_slot_ms > 0 ? `≥ ${format.money(dollars)}` : format.money(dollars);
}

/**
 * Says who waits for whom: `team-b had 71 % of the last hour's tokens; team-a is next.` Returns null if nobody waits or
 * there are no tenants.
 */
export function sharingInWords({ tenants, tokens, next }: PoolSharing): string | null {
  const waiting = tenants.filter((one) => one.waiting > 0);
  const isAlone = tenants.length === 1;
  if (waiting.length === 0 || (isAlone && !waiting[0]!.tenant)) return null;
  const [most] = [...tenants].sort((one, other) => other.tokens - one.tokens);
  const had =
    most && most.tokens > 0 && !isAlone
      ? `${subjectOf(most.tenant)} had ${format.percent(most.tokens / tokens)} of the last hour's tokens; `
      : '';
  const jobs = format.plural(
    waiting.reduce((sum, one) => sum + one.waiting, 0),
    'job',
  );
  if (most && had !== '' && waiting.length === 1 && waiting[0] === most)
    return `${had.slice(0, -2)} and ${most.tenant ? 'waits' : 'wait'} with ${jobs}.`;
  const who = waiting.length === 1 ? waitsOf(waiting[0]!.tenant) : `${waiting.length} tenants wait`;
  const then =
    waiting.length === 1 ? '' : next ? `, and ${next} is next` : ', and the one without a token is next';
  return `${had}${who} with ${jobs}${then}.`;
}

/**
 * Returns the name of a tenant within a sentence. @param tenant null or empty: its jobs came before tokens were
 * configured
 */
function subjectOf(tenant: string | null): string {
  return tenant || 'callers without a token';
}

function waitsOf(tenant: string | null): string {
  return `${subjectOf(tenant)} ${tenant ? 'waits' : 'wait'}`;
}

/** Returns a number of tokens: whole below a thousand, since tokens are counted, not measured. */
export function tokensInWords(tokens: number | null): string {
  return format.many(tokens);
}

/** Returns the name of a tenant. @param tenant null or empty: no tokens were configured */
export function nameOf(tenant: string | null): string {
  return tenant || 'no tenant';
}

/** A limit of which this share is used counts as nearly used. */
const NEAR_END = 0.8;

/** The limits in order: first those that renew within a minute or with the next answer, then budgets. */
const RATES = RATE_LIMITS.toSorted(
  (one, other) => Number(LIMITS[one].isBudget) - Number(LIMITS[other].isBudget),
);

/** Says how much of a limit is used: `8 of 10 requests a minute`, `$4.50 of $5.00 a day`. */
function usedInWords(name: LimitName, { used, limit }: LimitView[LimitName]): string {
  const isMoney = LIMITS[name].unit === 'dollars';
  const amount = isMoney ? format.money : format.count;
  return `${amount(used)} of ${amount(limit)} ${isMoney ? LIMITS[name].per : limitWords(name)}`;
}

/** A token or tenant whose limit is nearly used, or holds jobs back. */
export interface NearEnd {
  key: string;
  who: { tenant: string; rest: string };
  what: string;
}

/**
 * Returns a limit that is nearly used or holds jobs back, or null for any other. A limit is called nearly used only by
 * what was used, since room may be reserved.
 */
export function nearEnd(limit: LimitView): NearEnd | null {
  const { token_name, tenant, models, held } = limit;
  const [worst] = RATES.map((name) => ({
    name,
    share: shareOf(limit[name]),
  })).sort((one, other) => (other.share ?? 0) - (one.share ?? 0));
  const isNear = worst !== undefined && (worst.share ?? 0) >= NEAR_END;
  if (!isNear && held === 0) return null;
  const jobs = format.plural(held, 'job');
  const used = isNear ? usedInWords(worst.name, limit[worst.name]) : null;
  return {
    key: `${token_name} ${tenant} ${models}`,
    who: {
      tenant: tenant ?? token_name,
      rest:
        (tenant === null ? '' : `, all tokens, for ${token_name}`) +
        (models === null ? '' : ` for ${models}`),
    },
    what:
      used === null
        ? `${jobs} held back: they need more than is left of its limits`
        : used + (held === 0 ? '' : `, ${jobs} held back`),
  };
}

function shareOf({ used, limit }: { used: number; limit: number | null }): number | null {
  if (limit === null) return null;
  return limit === 0 ? 1 : used / limit;
}
