import { USAGE_KEYS, USAGE_MODES, type UsageKey, type UsageSum } from '../queue/rpc.ts';
import type { SpentOnDay } from '../scheduler/rpc.ts';
import { viewerOf } from './auth/authorize.ts';
import { callFleet, callQueue } from './objects/calls.ts';
import type { Parameter } from './openapi/document.ts';
import { invalidParameter, rejectUnknownParameters, timeOf, wholeNumber } from './parameters.ts';
import type { GatewayContext } from './routes/route.ts';
import { idleOf } from './usage-cost.ts';

/** The usage that a request's query asks for, and what launched machines cost beyond it. */

export const HOUR = 3600;
export const DAY = 24 * HOUR;
/** The most days of an answer: as many as the queue keeps. */
export const MOST_DAYS = 400;
/** The most sums that the queue returns at once. */
export const MOST_SUMS = 10_000;

export type UsageFilter = Partial<Record<keyof UsageKey, string[]>>;

export interface WantedUsage {
  /** The first second, epoch s; `to` is the end, exclusive. */
  from: number;
  to: number;
  width: number;
  groupBy: (keyof UsageKey)[];
  filter: UsageFilter;
}

export const KEY_PARAMETERS: Record<keyof UsageKey, Parameter> = {
  tenant: { description: 'Only what was counted for this tenant.' },
  token_name: { description: 'Only what jobs of this token used.' },
  config_id: { description: 'Only of this pool.' },
  model: { description: 'Only of this model, by the name that its engine has for it.' },
  mode: {
    description: 'Only of callers that waited, of stored jobs, or of lines of batches.',
    enum: USAGE_MODES,
  },
};

const PARAMETERS = ['days', 'since', 'until', 'width', 'group_by', 'queue_id', ...USAGE_KEYS];

/** Returns what a query of `GET /api/usage` asks for. @throws HttpError 400 */
export function readWanted(query: Record<string, string>, nowMs: number): WantedUsage {
  rejectUnknownParameters(query, PARAMETERS);
  const width = query.width ?? 'day';
  if (width !== 'day' && width !== 'hour') throw invalidParameter('width: expected day or hour');
  const until = timeOf('until', query.until);
  const since = timeOf('since', query.since);
  if (since !== null && query.days !== undefined) throw invalidParameter('days: give either days or since');
  const to = Math.ceil((until ?? nowMs) / 1000);
  const days = daysOf(query.days);
  const from = since === null ? to - ((to - 1) % DAY) - 1 - (days - 1) * DAY : Math.floor(since / 1000);
  if (from >= to) throw invalidParameter('since: expected a time before the end');
  const groupBy = (query.group_by ?? '').split(',').filter((name) => name !== '');
  for (const name of groupBy) {
    if (!USAGE_KEYS.some((key) => key === name))
      throw invalidParameter(`group_by: expected some of ${USAGE_KEYS.join(', ')}, not "${name}"`);
  }
  const filter: UsageFilter = {};
  const { mode } = query;
  if (mode !== undefined && !USAGE_MODES.some((known) => known === mode))
    throw invalidParameter(`mode: expected ${USAGE_MODES.join(', ')}, not "${mode}"`);
  for (const key of USAGE_KEYS) if (query[key] !== undefined) filter[key] = [query[key]];
  return {
    from,
    to,
    width: width === 'hour' ? HOUR : DAY,
    groupBy: [...new Set(groupBy)] as (keyof UsageKey)[],
    filter,
  };
}

function daysOf(text = '7'): number {
  return wholeNumber('days', text, 1, MOST_DAYS);
}

/** Yields all sums of what is asked for, in parts of as many as the queue returns at once. */
export async function* sumsOf(
  { env }: GatewayContext,
  queueId: string,
  wanted: WantedUsage,
): AsyncGenerator<UsageSum[]> {
  let skip = 0;
  let sums: UsageSum[];
  do {
    sums = await callQueue(env, queueId, (queue) => queue.usage({ ...wanted, skip }));
    skip += sums.length;
    yield sums;
  } while (sums.length === MOST_SUMS);
}

/** Returns what launched machines cost beyond what jobs used of them, for those who see everybody's usage. */
export async function idleIn(
  context: GatewayContext,
  queueId: string,
  { from, to, filter }: WantedUsage,
): Promise<SpentOnDay[]> {
  const { env } = context;
  if (viewerOf(context.get('token')) !== null) return [];
  const spent = await callFleet(env, queueId, (fleet) => fleet.spentByDay(from * 1000));
  if (spent.length === 0) return [];
  const [first, end] = [from - (from % DAY), to - (to % DAY) + DAY];
  const asked: WantedUsage = { from: first, to: end, width: DAY, groupBy: ['config_id'], filter: {} };
  const used: UsageSum[] = [];
  for await (const sums of sumsOf(context, queueId, asked)) used.push(...sums);
  const pools = filter.config_id;
  return idleOf(spent, used).filter(({ day, config_id }) => day < to && (pools?.includes(config_id) ?? true));
}
