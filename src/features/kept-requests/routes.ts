import { audited } from '../../gateway/audit.ts';
import { readerOf } from '../../gateway/auth/authorize.ts';
import type { Env } from '../../gateway/env.ts';
import { HttpError } from '../../gateway/errors.ts';
import { callKeptRequests } from '../../gateway/objects/calls.ts';
import { queueIdOf } from '../../gateway/objects/ids.ts';
import { invalidParameter, rejectUnknownParameters, timeOf } from '../../gateway/parameters.ts';
import { type Gateway, type GatewayContext, route } from '../../gateway/routes/route.ts';
import type { Erased, KeptPage, KeptWanted } from './types.ts';

/** Registers the routes by which admins list, download and erase kept requests. */
export function keptRequestsRoutes(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/kept-requests',
    tag: 'Jobs',
    summary: 'How many requests are kept with their answers, by hour of UTC',
    scopes: ['admin'],
    answers: { 200: { description: 'The hours.', content: { schema: 'KeptRequests' } } },
    errors: [400, 503],
    handler: async (context) => {
      const { env, req } = context;
      const queueId = queueIdOf(env, req.raw);
      rejectUnknownParameters(req.query(), ['queue_id']);
      const kept = await callKeptRequests(env, queueId, (object) => object.summary());
      const hours = kept.hours.map(({ hour, ...rest }) => ({ start: new Date(hour).toISOString(), ...rest }));
      return context.json({ keeps: env.KEEP_REQUESTS ?? 'off', ...kept, hours });
    },
  });

  route(app, {
    method: 'GET',
    path: '/api/kept-requests/records',
    tag: 'Jobs',
    summary: 'Kept requests with their answers, a line of JSON each, in the order in which they ended',
    description:
      "Each line has the names of OpenTelemetry's conventions for generative AI (docs/kept-requests.md). The download is in the audit.",
    scopes: ['admin'],
    query: {
      since: { description: 'Ended then or later: ISO time, or epoch seconds.' },
      until: { description: 'Ended before.' },
      tenant: { description: 'Only those of this tenant.' },
    },
    answers: {
      200: { description: 'The records.', content: { type: 'application/x-ndjson', schema: 'KeptRequest' } },
    },
    errors: [400, 503],
    handler: async (context) => {
      const { env, req } = context;
      const queueId = queueIdOf(env, req.raw);
      const wanted = readWanted(req.query());
      requireReader(context);
      const { tenant } = wanted;
      const target = tenant === null ? 'all' : `tenant ${tenant}`;
      return await audited(context, { action: 'kept_requests.read', target }, () =>
        linesOf(env, queueId, wanted),
      );
    },
  });

  route(app, {
    method: 'DELETE',
    path: '/api/kept-requests',
    tag: 'Jobs',
    summary: 'Erases the kept requests of a tenant, or those with an id of a job, a request or a response',
    description: 'Requests that still run are not kept either. Give tenant or id.',
    scopes: ['admin'],
    query: {
      tenant: { description: 'The tenant.' },
      id: { description: 'The id of a job, a request (X-Request-Id) or a response.' },
    },
    answers: { 200: { description: 'They are erased.', content: { schema: 'ErasedRequests' } } },
    errors: [400, 503],
    handler: async (context) => {
      const { env, req } = context;
      const queueId = queueIdOf(env, req.raw);
      const what = readErased(req.query());
      const target = 'tenant' in what ? `tenant ${what.tenant}` : what.id;
      const erased = await audited(
        context,
        { action: 'kept_requests.erase', target },
        () => callKeptRequests(env, queueId, (object) => object.erase(what)),
        (erased) => ({ erased }),
      );
      return context.json({ erased });
    },
  });
}

/** @throws HttpError 403 for the page, unless it may show prompts */
function requireReader(context: GatewayContext): void {
  if (readerOf(context.get('token'), context.env) === null) return;
  const message =
    'Kept requests hold prompts, which the page shows only with QUEUE_SHOW_PAYLOADS=1. Send a token of the scope admin instead.';
  throw new HttpError(403, message, 'payloads_hidden');
}

/** Returns lines; they are read from the object page by page as the caller reads them. */
async function linesOf(env: Env, queueId: string, wanted: KeptWanted): Promise<Response> {
  const read = (after: number) =>
    callKeptRequests(env, queueId, (object) => object.page({ ...wanted, after }));
  const encoder = new TextEncoder();
  // The first page is read before the response begins: what cannot be read is an error, not an empty file.
  let page: KeptPage | null = await read(wanted.after);
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (page === null || page.lines.length === 0) return controller.close();
      controller.enqueue(encoder.encode(page.lines.map((line) => `${line}\n`).join('')));
      page = page.next === null ? null : await read(page.next);
    },
  });
  return new Response(body, {
    headers: {
      'content-type': 'application/x-ndjson',
      'content-disposition': 'attachment; filename="kept-requests.jsonl"',
      'cache-control': 'no-store',
    },
  });
}

/** @throws HttpError 400 */
function readWanted(query: Record<string, string>): KeptWanted {
  rejectUnknownParameters(query, ['since', 'until', 'tenant', 'queue_id']);
  const { tenant = null } = query;
  const [since, until] = [timeOf('since', query.since), timeOf('until', query.until)];
  if (since !== null && until !== null && since >= until)
    throw invalidParameter('since: expected a time before until');
  // A shell makes this of a variable that is not set.
  if (tenant === '') throw invalidParameter('tenant: expected a name');
  return { since, until, tenant, after: 0 };
}

/** @throws HttpError 400 */
function readErased(query: Record<string, string>): Erased {
  rejectUnknownParameters(query, ['tenant', 'id', 'queue_id']);
  const { tenant, id } = query;
  if (tenant && !id) return { tenant };
  if (id && !tenant) return { id };
  throw invalidParameter('tenant: give either tenant or id, to say whose records to erase');
}
