import type * as z from 'zod';
import type { TelemetryBatch, TelemetryKind, TelemetryQuery } from '../../fleet/rpc.ts';
import { fieldsOf, LogBatch, MetricBatch, parseValue } from '../../protocol/index.ts';
import { requireQueueId, requireWorkerId } from '../auth/authorize.ts';
import { readValue } from '../bodies/body.ts';
import { HttpError } from '../errors.ts';
import { callFleet } from '../objects/calls.ts';
import { queueIdOf } from '../objects/ids.ts';
import type { RouteRow } from '../openapi/document.ts';
import { TAKEN } from './fleet.ts';
import { type Gateway, type GatewayContext, route } from './route.ts';

/** The most bytes of a batch: a thousand lines of the longest kind in any script. */
const BATCH_BYTES = 16 * 1024 * 1024;

/** The items of a page unless the caller asks for another number, and the most. */
const PAGE_ITEMS = { usual: 200, most: 1000 };

const PAGE: RouteRow['query'] = {
  limit: { description: 'Items of a page, 200 unless given, at most 1,000.', type: 'integer' },
  before: { description: 'The last items with a smaller number.', type: 'integer' },
  after: { description: 'The first items with a greater number.', type: 'integer' },
};

/** Registers the routes where workers post log lines and samples, and where operators read them. */
export function telemetryRoutes(app: Gateway): void {
  route(app, {
    method: 'POST',
    path: '/api/logs',
    tag: 'Workers',
    summary: 'Log lines of a worker and its engine',
    scopes: ['worker'],
    body: { schema: 'LogBatch' },
    answers: TAKEN,
    errors: [400, 404, 413, 503],
    handler: (context) => keep(context, LogBatch, ({ entries }) => ({ kind: 'logs', items: entries })),
  });
  route(app, {
    method: 'POST',
    path: '/api/metrics',
    tag: 'Workers',
    summary: 'Samples of a worker',
    scopes: ['worker'],
    body: { schema: 'MetricBatch' },
    answers: TAKEN,
    errors: [400, 404, 413, 503],
    handler: (context) =>
      keep(context, MetricBatch, ({ snapshots }) => ({ kind: 'metrics', items: snapshots })),
  });
  route(app, {
    method: 'GET',
    path: '/api/workers/:id/logs',
    tag: 'Fleet',
    summary: "A worker's newest log lines",
    scopes: ['read'],
    query: PAGE,
    answers: { 200: { description: 'A page.', content: { schema: 'LogPage' } } },
    errors: [400, 503],
    handler: (context) => page(context, 'logs'),
  });
  route(app, {
    method: 'GET',
    path: '/api/workers/:id/metrics',
    tag: 'Fleet',
    summary: "A worker's newest samples",
    scopes: ['read'],
    query: PAGE,
    answers: { 200: { description: 'A page.', content: { schema: 'MetricPage' } } },
    errors: [400, 503],
    handler: (context) => page(context, 'metrics'),
  });
}

async function keep<B extends { instance_id: string }>(
  context: GatewayContext,
  schema: z.ZodType<B>,
  batchOf: (body: B) => TelemetryBatch,
): Promise<Response> {
  const { env, req } = context;
  const body = await readValue(req.raw, env, BATCH_BYTES);
  const { queue_id } = fieldsOf(body);
  const queueId = queueIdOf(env, req.raw, typeof queue_id === 'string' ? queue_id : undefined);
  const batch = parseValue(schema, body);
  if (!batch.ok) throw new HttpError(400, `Not a batch: ${batch.message}`, 'invalid_batch');
  const workerId = batch.value.instance_id;
  requireWorkerId(context.get('token'), workerId);
  requireQueueId(context.get('token'), queueId);
  await callFleet(env, queueId, (fleet) => fleet.keepTelemetry(workerId, batchOf(batch.value)));
  return context.json({ status: 'ok' });
}

async function page(context: GatewayContext, kind: TelemetryKind): Promise<Response> {
  const { env, req } = context;
  const query = queryOf(context);
  const workerId = req.param('id') ?? '';
  const { items, has_more } = await callFleet(env, queueIdOf(env, req.raw), (fleet) =>
    fleet.telemetry(workerId, kind, query),
  );
  return context.json({ worker_id: workerId, [kind]: items, has_more });
}

/** @throws HttpError 400 */
function queryOf(context: GatewayContext): TelemetryQuery {
  const after = numberIn(context, 'after', 0, Number.MAX_SAFE_INTEGER);
  const before = numberIn(context, 'before', 0, Number.MAX_SAFE_INTEGER);
  return {
    limit: numberIn(context, 'limit', 1, PAGE_ITEMS.most) ?? PAGE_ITEMS.usual,
    ...(after === undefined ? {} : { after }),
    ...(before === undefined ? {} : { before }),
  };
}

function numberIn(context: GatewayContext, name: string, least: number, most: number): number | undefined {
  const given = context.req.query(name);
  if (given === undefined) return undefined;
  const number = /^\d+$/.test(given) ? Number(given) : Number.NaN;
  if (number >= least && number <= most) return number;
  throw new HttpError(400, `${name}: expected a whole number from ${least} to ${most}.`, 'invalid_page');
}
