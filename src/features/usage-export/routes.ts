import { viewerOf } from '../../gateway/auth/authorize.ts';
import { queueIdOf } from '../../gateway/objects/ids.ts';
import { invalidParameter, rejectUnknownParameters } from '../../gateway/parameters.ts';
import { type Gateway, type GatewayContext, route } from '../../gateway/routes/route.ts';
import {
  DAY,
  idleIn,
  KEY_PARAMETERS,
  MOST_DAYS,
  readWanted,
  sumsOf,
  type WantedUsage,
} from '../../gateway/usage-wanted.ts';
import { USAGE_KEYS } from '../../queue/rpc.ts';
import { type ExportFormat, FORMATS, idleRow, usageRow } from './rows.ts';

const PARAMETERS = ['month', 'days', 'since', 'until', 'format', 'queue_id', ...USAGE_KEYS];

/** Registers the export of usage and cost, for finance: a row a day, tenant, token, pool, model and mode. */
export function usageExportRoute(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/usage/export',
    tag: 'Metrics and usage',
    summary: 'Usage and cost by day, tenant, token, pool, model and mode, as CSV or JSON lines',
    description:
      'All rows of the time, as they are read. What launched machines cost beyond what was used of them are rows of the kind "idle"; they are left out for the scope submit, and where a filter but config_id is given. A cost that is not known is empty in CSV and null in JSON, never zero.',
    scopes: ['submit', 'read'],
    query: {
      month: { description: 'A month of UTC, such as 2026-11, in place of days, since and until.' },
      days: { description: 'So many days up to the end, 7 unless given, at most 400.', type: 'integer' },
      since: { description: 'From then on, in place of days: ISO time, or epoch seconds.' },
      until: { description: 'Before then; now unless given.' },
      format: { description: 'csv unless given.', enum: ['csv', 'jsonl'] },
      ...KEY_PARAMETERS,
    },
    answers: {
      200: {
        description: 'The rows.',
        content: [{ type: 'text/csv' }, { type: 'application/x-ndjson', schema: 'UsageExportRow' }],
      },
    },
    errors: [400, 503],
    handler: async (context) => {
      const queueId = queueIdOf(context.env, context.req.raw);
      const { format: name, wanted, period } = readExport(context.req.query(), Date.now());
      const format = FORMATS[name];
      const rows = rowsOf(context, queueId, wanted);
      // The first day is read before the response begins: what cannot be read is an error, not an empty file.
      let next = await rows.next();
      const encoder = new TextEncoder();
      let head: string = format.head;
      const body = new ReadableStream<Uint8Array>({
        async pull(controller) {
          const lines = head + (next.done ? '' : next.value.map(format.line).join(''));
          if (lines !== '') controller.enqueue(encoder.encode(lines));
          head = '';
          if (next.done) return controller.close();
          next = await rows.next();
        },
      });
      return new Response(body, {
        headers: {
          'content-type': format.type,
          'content-disposition': `attachment; filename="usage-${period}.${name}"`,
          'cache-control': 'no-store',
        },
      });
    },
  });
}

/** Yields the rows of each day that has some; they are read from the queue day by day as the caller reads them. */
async function* rowsOf(context: GatewayContext, queueId: string, wanted: WantedUsage) {
  const viewer = viewerOf(context.get('token'));
  const filter = viewer === null ? wanted.filter : { ...wanted.filter, tenant: [viewer] };
  // Idle machines belong to no tenant, token, model or mode.
  const ofAll = Object.keys(filter).every((name) => name === 'config_id');
  const idle = Map.groupBy(ofAll ? await idleIn(context, queueId, wanted) : [], ({ day }) => day);
  for (let day = wanted.from - (wanted.from % DAY); day < wanted.to; day += DAY) {
    const [from, to] = [Math.max(day, wanted.from), Math.min(day + DAY, wanted.to)];
    const asked: WantedUsage = { from, to, width: DAY, groupBy: [...USAGE_KEYS], filter };
    for await (const sums of sumsOf(context, queueId, asked)) if (sums.length > 0) yield sums.map(usageRow);
    const spent = idle.get(day) ?? [];
    if (spent.length > 0) yield spent.map(idleRow);
  }
}

interface WantedExport {
  format: ExportFormat;
  wanted: WantedUsage;
  /** The time in the file's name. */
  period: string;
}

/** @throws HttpError 400 */
export function readExport(given: Record<string, string>, nowMs: number): WantedExport {
  rejectUnknownParameters(given, PARAMETERS);
  const { format = 'csv', month, ...query } = given;
  if (format !== 'csv' && format !== 'jsonl') throw invalidParameter('format: expected csv or jsonl');
  if (month !== undefined) {
    const extra = ['days', 'since', 'until'].find((name) => query[name] !== undefined);
    if (extra !== undefined) throw invalidParameter(`${extra}: give either month or ${extra}`);
    const wanted = readWanted({ ...query, ...boundsOf(month) }, nowMs);
    const today = nowMs / 1000 - ((nowMs / 1000) % DAY);
    if (wanted.from < today - MOST_DAYS * DAY)
      throw invalidParameter(
        `month: ${month} is not kept whole any more, as days are deleted after ${MOST_DAYS}; since and until give those that are left`,
      );
    return { format, wanted, period: month };
  }
  const wanted = readWanted(query, nowMs);
  const [first, last] = [wanted.from, wanted.to - 1].map((at) =>
    new Date(at * 1000).toISOString().slice(0, 10),
  );
  return { format, wanted, period: first === last ? first! : `${first}-to-${last}` };
}

/** Returns the month's bounds in the form of a query. @throws HttpError 400 */
function boundsOf(month: string): { since: string; until: string } {
  const [, year, number] = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(month) ?? [];
  if (number === undefined || Number(year) < 1971)
    throw invalidParameter('month: expected a month such as 2026-11');
  const start = (months: number) => String(Date.UTC(Number(year), Number(number) - 1 + months) / 1000);
  return { since: start(0), until: start(1) };
}
