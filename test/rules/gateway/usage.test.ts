import { describe, expect, it } from 'vitest';
import { FEATURE_ROUTES } from '../../../src/features/index.ts';
import { createApp } from '../../../src/gateway/app.ts';
import type { GatewayEnv } from '../../../src/gateway/env.ts';
import { SCHEMAS } from '../../../src/gateway/openapi/schemas.ts';
import { USAGE_AMOUNTS, type UsageSum, type UsageWanted } from '../../../src/queue/rpc.ts';
import type { SpentOnDay } from '../../../src/scheduler/rpc.ts';
import { acceptNothing, playedObjects } from '../../support/objects.ts';
import { tokenEntry } from '../../support/token-entry.ts';

const TOKENS = JSON.stringify([
  tokenEntry('app', ['submit'], { tenant: 'team' }),
  tokenEntry('dashboard', ['read']),
  tokenEntry('gpu', ['worker']),
]);
const START = Date.UTC(2026, 0, 1) / 1000;
const DAY = 86_400;
const NOTHING = Object.fromEntries(USAGE_AMOUNTS.map((name) => [name, 0])) as Record<string, number>;
const sum = (start: number, more: object = {}) =>
  ({ start, ...NOTHING, requests: 2, input: 10, cached: 4, output: 5, ...more }) as UsageSum;

/** Asks a gateway whose queue has counted this; all of it again where it is asked for what everybody used. */
async function ask(path: string, sums: UsageSum[] = [], who = 'dashboard', spent: SpentOnDay[] = []) {
  const wanted: UsageWanted[] = [];
  const object = {
    usage: async (given: UsageWanted) => {
      wanted.push(given);
      return sums;
    },
    spentByDay: async () => spent,
    stored: async () => [
      { tenant: 'other', bytes: 5 },
      { tenant: 'team', bytes: 7 },
    ],
  };
  const objects = playedObjects({ queue: () => object, fleet: () => object, responses: () => object });
  const env: GatewayEnv = { objects, acceptUpgrade: acceptNothing, TOKENS };
  const headers = { authorization: `Bearer ${who}` };
  const response = await createApp(FEATURE_ROUTES).fetch(
    new Request(`https://queue.example${path}`, { headers }),
    env,
  );
  return { status: response.status, body: (await response.json()) as never as Body, wanted: wanted[0] };
}
type Body = { usage: object[]; error: { message: string }; data: object[] } & Record<string, unknown>;

describe('GET /api/usage', () => {
  it('asks for the newest week of days of UTC and adds up what there is', async () => {
    const { body, wanted } = await ask('/api/usage?until=2026-01-08T12:00:00Z', [
      sum(START),
      sum(START + DAY),
    ]);
    expect(wanted).toEqual({ from: START + DAY, to: START + 7.5 * DAY, width: DAY, groupBy: [], filter: {} });
    expect(body).toMatchObject({
      since: '2026-01-02T00:00:00.000Z',
      until: '2026-01-08T12:00:00.000Z',
      width: 'day',
      usage: [{ start: '2026-01-01T00:00:00.000Z', input: 10 }, { start: '2026-01-02T00:00:00.000Z' }],
      total: { requests: 4, input: 20, cached: 8, output: 10 },
    });
    expect(SCHEMAS.Usage.schema.safeParse(body).error).toBeUndefined();
  });

  it('says what is stored now, to a caller for its own tenant alone', async () => {
    const stored = async (path: string, who?: string) => (await ask(path, [], who)).body.stored;
    const [other, team] = [
      { tenant: 'other', bytes: 5 },
      { tenant: 'team', bytes: 7 },
    ];
    expect(await stored('/api/usage')).toEqual([other, team]);
    expect(await stored('/api/usage?tenant=other')).toEqual([other]);
    expect(await stored('/api/usage', 'app')).toEqual([team]);
    expect(await stored('/api/usage?tenant=other', 'app')).toEqual([]);
  });

  it('ends a day that is whole with it', async () => {
    const { wanted } = await ask('/api/usage?days=1&until=2026-01-02T00:00:00Z');
    expect([wanted?.from, wanted?.to]).toEqual([START, START + DAY]);
  });

  it('groups, filters and takes hours', async () => {
    const { wanted } = await ask(
      `/api/usage?since=${START}&until=${START + 7200}&width=hour&group_by=token_name,model,model&config_id=llama`,
    );
    expect(wanted).toEqual({
      from: START,
      to: START + 7200,
      width: 3600,
      groupBy: ['token_name', 'model'],
      filter: { config_id: ['llama'] },
    });
  });

  it('shows a token of callers what its tenant used', async () => {
    const { wanted } = await ask('/api/usage?tenant=other', [], 'app');
    expect(wanted?.filter).toEqual({ tenant: ['team'] });
    expect((await ask('/api/usage', [], 'gpu')).status).toBe(403);
  });

  describe('what it cost', () => {
    const HOUR = 3_600_000;
    const used = (config_id: string, dollars: number | null, start = START) =>
      sum(start, {
        config_id,
        tenant: 'a',
        slot_ms: HOUR,
        ...(dollars === null ? { unpriced_slot_ms: HOUR } : { nanodollars: dollars * 1e9 }),
      });
    const spent = (config_id: string, dollars: number, day = START) => ({ day, config_id, dollars });
    const query = `/api/usage?since=${START}&until=${START + 2 * DAY}&group_by=tenant`;

    it('is what its slots cost, as far as their price is known; else unknown, and never zero', async () => {
      const { body, wanted } = await ask(query, [used('big', 1.5), used('own', null)]);
      expect(wanted?.groupBy).toEqual(['tenant']);
      expect(body.usage).toMatchObject([
        { tenant: 'a', slot_ms: HOUR, unpriced_slot_ms: 0, dollars: 1.5 },
        { tenant: 'a', slot_ms: HOUR, unpriced_slot_ms: HOUR, dollars: null },
      ]);
      expect(body.usage[0]).not.toHaveProperty('nanodollars');
      expect(body.total).toMatchObject({ slot_ms: 2 * HOUR, unpriced_slot_ms: HOUR, dollars: 1.5 });
      expect(SCHEMAS.Usage.schema.safeParse(body).error).toBeUndefined();
      expect((await ask(query, [sum(START)])).body.total).toMatchObject({ slot_ms: 0, dollars: null });
    });

    it('is idle beyond what was used of the machines that were launched, which a tenant is not shown', async () => {
      const launched = [spent('big', 8), spent('big', 2, START + DAY), spent('small', 1)];
      const sums = [used('big', 1.5), used('small', 1)];
      expect((await ask(query, sums, 'dashboard', launched)).body.idle).toEqual([
        { start: '2026-01-01T00:00:00.000Z', config_id: 'big', dollars: 6.5 },
        { start: '2026-01-02T00:00:00.000Z', config_id: 'big', dollars: 2 },
      ]);
      expect((await ask(query, sums, 'app', launched)).body.idle).toEqual([]);
      const small = await ask(`${query}&config_id=small`, sums, 'dashboard', launched);
      expect(small.body.idle).toEqual([]);
    });
  });

  it.each([
    ['day=3', /there is no such parameter/],
    ['days=0', /days: expected a whole number from 1 to 400/],
    ['days=3&since=2026-01-01', /either days or since/],
    ['width=minute', /expected day or hour/],
    ['group_by=user', /expected some of tenant, token_name, .* not "user"/],
    ['since=2026-01-02&until=2026-01-01', /before the end/],
    ['since=yesterday', /expected a time/],
  ])('says what is wrong with ?%s', async (query, message) => {
    const { status, body } = await ask(`/api/usage?${query}`);
    expect([status, body.error.message]).toEqual([400, expect.stringMatching(message)]);
  });

  it('gives no part of an answer that is too long', async () => {
    const { status, body } = await ask(
      '/api/usage',
      Array.from({ length: 10_000 }, () => sum(START)),
    );
    expect([status, body.error.message]).toEqual([400, expect.stringMatching(/10000 sums or more/)]);
  });
});

describe('GET /v1/organization/usage/completions', () => {
  const path = '/v1/organization/usage/completions';

  it('gives a bucket a day, also for those in which nothing was used', async () => {
    const sums = [sum(START, { tenant: 'team', token_name: 'app', model: 'tiny' })];
    const query = `start_time=${START + 5}&end_time=${START + 2 * DAY}&group_by=project_id&group_by[]=api_key_id,model`;
    const { body, wanted } = await ask(`${path}?${query}&project_ids=team`, sums);
    expect(wanted).toEqual({
      from: START,
      to: START + 2 * DAY,
      width: DAY,
      groupBy: ['tenant', 'token_name', 'model'],
      filter: { tenant: ['team'] },
    });
    expect(body).toEqual({
      object: 'page',
      data: [
        {
          object: 'bucket',
          start_time: START,
          end_time: START + DAY,
          results: [
            {
              object: 'organization.usage.completions.result',
              input_tokens: 10,
              input_cached_tokens: 4,
              output_tokens: 5,
              input_audio_tokens: 0,
              output_audio_tokens: 0,
              num_model_requests: 2,
              project_id: 'team',
              user_id: null,
              api_key_id: 'app',
              model: 'tiny',
              batch: null,
              service_tier: null,
            },
          ],
        },
        { object: 'bucket', start_time: START + DAY, end_time: START + 2 * DAY, results: [] },
      ],
      has_more: false,
      next_page: null,
    });
    expect(SCHEMAS.UsagePage.schema.safeParse(body).error).toBeUndefined();
  });

  it('tells batches from the rest, however the rest was asked for', async () => {
    const modes = ['waiting', 'stored', 'batch'].map((mode) => sum(START, { mode, model: 'tiny' }));
    const { body, wanted } = await ask(`${path}?start_time=${START}&group_by=batch,model&batch=false`, modes);
    expect(wanted).toMatchObject({
      groupBy: ['mode', 'model'],
      filter: { mode: ['waiting', 'stored'] },
    });
    expect((body.data[0] as { results: object[] }).results).toMatchObject([
      { batch: false, num_model_requests: 4, input_tokens: 20 },
      { batch: true, num_model_requests: 2, input_tokens: 10 },
    ]);
  });

  it('goes on from page to page', async () => {
    const first = await ask(
      `${path}?start_time=${START}&end_time=${START + 3 * 3600}&bucket_width=1h&limit=2`,
    );
    expect(first.body).toMatchObject({ has_more: true, next_page: String(START + 7200) });
    const query = `start_time=${START}&end_time=${START + 3 * 3600}&bucket_width=1h&limit=2&page=${first.body.next_page}`;
    const { body } = await ask(`${path}?${query}`);
    expect(body.data).toMatchObject([{ start_time: START + 7200 }]);
    expect(body).toMatchObject({ has_more: false, next_page: null });
  });

  it.each([
    ['', /start_time: expected/],
    [`start_time=${START}&bucket_width=1m`, /minutes are not kept/],
    [`start_time=${START}&limit=32`, /from 1 to 31/],
    [`start_time=${START}&batch=yes`, /true or false/],
    [`start_time=${START}&group_by=color`, /not "color"/],
  ])('says what is wrong with ?%s', async (query, message) => {
    const { status, body } = await ask(`${path}?${query}`);
    expect([status, body.error.message]).toEqual([400, expect.stringMatching(message)]);
  });
});
