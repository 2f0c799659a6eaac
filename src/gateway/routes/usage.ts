import { USAGE_KEYS, USAGE_MODES, type UsageKey, type UsageSum } from '../../queue/rpc.ts';
import { viewerOf } from '../auth/authorize.ts';
import { HttpError } from '../errors.ts';
import { callQueue, callResponses } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import { invalidParameter, trueOrFalse, wholeNumber } from '../parameters.ts';
import { totalOf, withCost } from '../usage-cost.ts';
import {
  DAY,
  HOUR,
  idleIn,
  KEY_PARAMETERS,
  MOST_SUMS,
  readWanted,
  type UsageFilter,
  type WantedUsage,
} from '../usage-wanted.ts';
import { type Gateway, type GatewayContext, route } from './route.ts';

/** Registers the routes of counted tokens and requests: in our form, and in that of OpenAI's usage API. */
export function usageRoutes(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/usage',
    tag: 'Metrics and usage',
    summary: 'Tokens and requests by day or hour (UTC)',
    scopes: ['submit', 'read'],
    query: {
      days: { description: 'So many days up to the end, 7 unless given, at most 400.', type: 'integer' },
      since: { description: 'From then on, in place of days: ISO time, or epoch seconds.' },
      until: { description: 'Before then; now unless given.' },
      width: { description: 'Day unless given. Hours are kept for 14 days.', enum: ['day', 'hour'] },
      group_by: { description: `Some of ${USAGE_KEYS.join(', ')}, separated by commas.` },
      ...KEY_PARAMETERS,
    },
    answers: { 200: { description: 'The sums, and those of all.', content: { schema: 'Usage' } } },
    errors: [400, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const wanted = readWanted(context.req.query(), Date.now());
      const [sums, idle, stored] = await Promise.all([
        usageOf(context, queueId, wanted),
        idleIn(context, queueId, wanted),
        storedIn(context, queueId, wanted.filter.tenant),
      ]);
      const iso = (at: number) => new Date(at * 1000).toISOString();
      return context.json({
        since: iso(wanted.from),
        until: iso(wanted.to),
        width: wanted.width === HOUR ? 'hour' : 'day',
        usage: sums.map(({ start, ...sum }) => ({ start: iso(start), ...withCost(sum) })),
        total: withCost(totalOf(sums)),
        idle: idle.map(({ day, ...spent }) => ({ start: iso(day), ...spent })),
        stored,
      });
    },
  });

  route(app, {
    method: 'GET',
    path: '/v1/organization/usage/completions',
    tag: 'Metrics and usage',
    summary: 'The same in the form of OpenAI: project_id is the tenant, api_key_id the name of the token',
    scopes: ['submit', 'read'],
    query: {
      start_time: { description: 'Epoch seconds, inclusive.', type: 'integer' },
      end_time: { description: 'Epoch seconds, exclusive; now unless given.', type: 'integer' },
      bucket_width: { description: '1d unless given.', enum: ['1h', '1d'] },
      group_by: { description: 'Some of project_id, api_key_id, model; may be repeated.' },
      project_ids: { description: 'Only these tenants.' },
      api_key_ids: { description: 'Only tokens of these names.' },
      models: { description: 'Only these models.' },
      batch: { description: 'true: only lines of batches; false: only the rest.' },
      limit: { description: 'Buckets of a page: 7 days or 24 hours, at most 31 or 168.', type: 'integer' },
      page: { description: 'The next_page of the page before.' },
    },
    answers: { 200: { description: 'A page.', content: { schema: 'UsagePage' } } },
    errors: [400, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const asked = readOpenAI(new URL(context.req.url).searchParams, Date.now());
      const sums = await usageOf(context, queueId, asked);
      return context.json(pageOf(asked, sums));
    },
  });
}

/** Returns the bytes of responses and conversations that are stored now, of the tenants that the token may see. */
async function storedIn(context: GatewayContext, queueId: string, tenants: string[] | undefined) {
  const viewer = viewerOf(context.get('token'));
  const stored = await callResponses(context.env, queueId, (responses) => responses.stored());
  return stored.filter(
    ({ tenant }) =>
      (viewer === null || tenant === viewer) && (tenants === undefined || tenants.includes(tenant ?? '')),
  );
}

/** Returns the usage that the token may see: with `submit` alone its tenant's. */
async function usageOf(
  context: GatewayContext,
  queueId: string,
  { from, to, width, groupBy, filter }: WantedUsage,
): Promise<UsageSum[]> {
  const viewer = viewerOf(context.get('token'));
  const visible = viewer === null ? filter : { ...filter, tenant: [viewer] };
  const sums = await callQueue(context.env, queueId, (queue) =>
    queue.usage({ from, to, width, groupBy, filter: visible }),
  );
  if (sums.length < MOST_SUMS) return sums;
  throw new HttpError(
    400,
    `The answer would hold ${MOST_SUMS} sums or more: ask for less time, or group by fewer fields.`,
    'too_many_sums',
  );
}

/** Buckets of a page: their width in s, how many unless the caller says, and the most. */
const WIDTHS: Record<string, { width: number; usual: number; most: number }> = {
  '1h': { width: HOUR, usual: 24, most: 168 },
  '1d': { width: DAY, usual: 7, most: 31 },
};
/** Our keys by OpenAI's names of groups; null for a group that does not exist here. */
const GROUPS: Record<string, keyof UsageKey | null> = {
  project_id: 'tenant',
  api_key_id: 'token_name',
  model: 'model',
  user_id: null,
  batch: 'mode',
  service_tier: null,
};
const FILTERS: Record<string, keyof UsageKey> = {
  project_ids: 'tenant',
  api_key_ids: 'token_name',
  models: 'model',
};

interface OpenAIWanted extends WantedUsage {
  /** The end of all pages, epoch s. */
  end: number;
}

/** @throws HttpError 400 */
function readOpenAI(query: URLSearchParams, nowMs: number): OpenAIWanted {
  const list = (name: string) =>
    [...query.getAll(name), ...query.getAll(`${name}[]`)].flatMap((value) => value.split(','));
  const asked = query.get('bucket_width') ?? '1d';
  const bucket = WIDTHS[asked];
  if (bucket === undefined) throw invalidParameter('bucket_width: expected 1h or 1d; minutes are not kept');
  const { width, usual, most } = bucket;
  const start = secondsOf('start_time', query.get('page') ?? query.get('start_time'));
  if (start === null)
    throw invalidParameter('start_time: expected the first second to be counted, since 1970');
  const end = secondsOf('end_time', query.get('end_time')) ?? Math.ceil(nowMs / 1000);
  const limit = wholeNumber('limit', query.get('limit') ?? String(usual), 1, most);
  const from = start - (start % width);
  const groupBy: (keyof UsageKey)[] = [];
  for (const name of list('group_by')) {
    const key = GROUPS[name];
    if (key === undefined)
      throw invalidParameter(`group_by: expected some of ${Object.keys(GROUPS).join(', ')}, not "${name}"`);
    if (key !== null && !groupBy.includes(key)) groupBy.push(key);
  }
  const filter: UsageFilter = batchFilter(query.get('batch'));
  for (const [name, key] of Object.entries(FILTERS)) {
    const values = list(name);
    if (values.length > 0) filter[key] = values;
  }
  return { from, to: Math.min(end, from + limit * width), end, width, groupBy, filter };
}

/** @throws HttpError 400 */
function batchFilter(text: string | null): UsageFilter {
  if (text === null) return {};
  const isBatch = trueOrFalse('batch', text);
  return { mode: USAGE_MODES.filter((mode) => (mode === 'batch') === isBatch) };
}

function secondsOf(name: string, text: string | null): number | null {
  if (text === null) return null;
  if (!/^\d{1,11}$/.test(text)) throw invalidParameter(`${name}: expected seconds since 1970`);
  return Number(text);
}

/** Returns a page in OpenAI's form: every bucket of it, also those in which nothing was used. */
function pageOf({ from, to, end, width }: OpenAIWanted, sums: readonly UsageSum[]) {
  const starts: number[] = [];
  for (let start = from; start < to; start += width) starts.push(start);
  const byStart = Map.groupBy(joined(sums), ({ start }) => start);
  return {
    object: 'page',
    data: starts.map((start_time) => ({
      object: 'bucket',
      start_time,
      end_time: start_time + width,
      results: (byStart.get(start_time) ?? []).map(resultOf),
    })),
    has_more: to < end,
    next_page: to < end ? String(to) : null,
  };
}

/**
 * Joins the sums of callers that waited and of stored jobs, which OpenAI does not tell apart; lines of batches stay
 * separate.
 */
function joined(sums: readonly UsageSum[]): UsageSum[] {
  const groups = Map.groupBy(sums, ({ start, tenant, token_name, model, mode }) =>
    JSON.stringify([start, tenant, token_name, model, mode === 'batch']),
  );
  return [...groups.values()].map((group) => ({ ...group[0]!, ...totalOf(group) }));
}

function resultOf(sum: UsageSum) {
  return {
    object: 'organization.usage.completions.result',
    input_tokens: sum.input,
    input_cached_tokens: sum.cached,
    output_tokens: sum.output,
    input_audio_tokens: 0,
    output_audio_tokens: 0,
    num_model_requests: sum.requests,
    project_id: sum.tenant || null,
    user_id: null,
    api_key_id: sum.token_name || null,
    model: sum.model || null,
    batch: sum.mode === undefined ? null : sum.mode === 'batch',
    service_tier: null,
  };
}
