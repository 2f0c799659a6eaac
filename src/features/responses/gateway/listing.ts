import { viewerOf } from '../../../gateway/auth/authorize.ts';
import { callResponses } from '../../../gateway/objects/calls.ts';
import { queueIdOf } from '../../../gateway/objects/ids.ts';
import {
  invalidParameter,
  numberOfCursor,
  pageRows,
  rejectUnknownParameters,
  timeOf,
} from '../../../gateway/parameters.ts';
import { type Gateway, type GatewayContext, route } from '../../../gateway/routes/route.ts';
import type { ResponseRow } from '../../../protocol/response-rows.ts';
import { RESPONSE_STATUSES } from '../../../protocol/response-statuses.ts';
import type { ResponsesWanted } from '../object/listing.ts';
import { noResponse } from './errors.ts';

/** The most calls of the object for one page: each looks at a bounded number of responses. */
const MOST_LOOKS = 25;

const FILTERS = {
  status: { description: 'Only those in this state.', enum: RESPONSE_STATUSES },
  id: { description: 'Only those whose id begins so.' },
  model: { description: 'Only those of this model.' },
  tenant: { description: 'Only those of this tenant.' },
  conversation: { description: 'Only those of this conversation.' },
  since: { description: 'Created then or later: ISO time, or epoch seconds.' },
  until: { description: 'Created before: ISO time, or epoch seconds.' },
} as const;

/** Registers the lists of stored responses, which OpenAI's API does not have. */
export function listingRoutes(app: Gateway): void {
  route(app, {
    method: 'GET',
    path: '/api/responses',
    tag: 'Inference',
    summary: 'Stored responses, newest first, without what was said',
    scopes: ['submit', 'read'],
    query: {
      ...FILTERS,
      limit: { description: 'Responses of a page, 50 unless given, at most 500.', type: 'integer' },
      cursor: { description: 'The "next" of the page before.' },
    },
    answers: { 200: { description: 'A page.', content: { schema: 'ResponseRowPage' } } },
    errors: [400, 503],
    handler: (context) => listResponses(context),
  });
  route(app, {
    method: 'GET',
    path: '/api/responses/:id',
    tag: 'Inference',
    summary: 'A stored response with its chain and conversation, without what was said',
    scopes: ['submit', 'read'],
    answers: { 200: { description: 'Where it stands.', content: { schema: 'ResponsePlace' } } },
    errors: [404, 503],
    handler: async (context) => {
      const id = context.req.param('id')!;
      const viewer = viewerOf(context.get('token'));
      const queueId = queueIdOf(context.env, context.req.raw);
      const place = await callResponses(context.env, queueId, (responses) => responses.place(id, viewer));
      if (place === null) throw noResponse(id);
      return context.json(place);
    },
  });
}

async function listResponses(context: GatewayContext): Promise<Response> {
  const queueId = queueIdOf(context.env, context.req.raw);
  const query = context.req.query();
  const wanted = { ...wantedOf(query), viewer: viewerOf(context.get('token')) };
  const responses: ResponseRow[] = [];
  let before = numberOfCursor(query.cursor);
  for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
    const limit = wanted.limit - responses.length;
    const page = await callResponses(context.env, queueId, (object) =>
      object.list({ ...wanted, before, limit }),
    );
    responses.push(...page.responses);
    before = page.next;
    if (before === null || responses.length >= wanted.limit) break;
  }
  return context.json({ responses, next: before === null ? null : String(before) });
}

/** @throws HttpError 400 */
function wantedOf(query: Record<string, string>): Omit<ResponsesWanted, 'viewer' | 'before'> {
  rejectUnknownParameters(query, [...Object.keys(FILTERS), 'limit', 'cursor', 'queue_id']);
  const { status, id, model, tenant, conversation, since, until } = query;
  if (status && !(RESPONSE_STATUSES as readonly string[]).includes(status))
    throw invalidParameter(`status: expected one of ${RESPONSE_STATUSES.join(', ')}`);
  return {
    filter: {
      status: status || null,
      tenant: tenant || null,
      model: model || null,
      conversation_id: conversation || null,
    },
    id: id || null,
    since: timeOf('since', since || undefined),
    until: timeOf('until', until || undefined),
    limit: pageRows(query.limit),
  };
}
