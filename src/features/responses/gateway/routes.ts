import { inferenceRoutesOf } from '../../../gateway/env.ts';
import type { RouteRow } from '../../../gateway/openapi/document.ts';
import { PASSED_THROUGH } from '../../../gateway/routes/inference.ts';
import { type Gateway, type GatewayContext, requireUpgrade, route } from '../../../gateway/routes/route.ts';
import { cancelResponse } from './background.ts';
import { createResponse, PATH } from './create.ts';
import { countInputTokens } from './input-tokens.ts';
import { deleteResponse, getResponse, listInputItems } from './reads.ts';
import { openResponsesSocket, SCOPES } from './socket.ts';

/** The parameters of lists of items. */
export const ITEMS: RouteRow['query'] = {
  limit: { description: 'Items of a page, 20 unless given, at most 100.', type: 'integer' },
  order: { description: 'The newest first, unless asc is given.', enum: ['asc', 'desc'] },
  after: { description: 'The last item of the page before.' },
};

const STREAM: RouteRow['query'] = {
  stream: { description: 'true: the events of the response, from the first unless starting_after is given.' },
  starting_after: { description: 'The sequence number of the last event that was read.', type: 'integer' },
  include_obfuscation: { description: 'Is accepted; no event is obfuscated.' },
};

/** Whether the operator's list of routes has this one. */
function isOnList(context: GatewayContext): boolean {
  return inferenceRoutesOf(context.env).has('POST', PATH);
}

/** Registers OpenAI's Responses API. */
export function responsesRoutes(app: Gateway): void {
  const created = PASSED_THROUGH.find(({ method, path }) => method === 'POST' && path === PATH)!;
  route(app, {
    ...created,
    path: PATH,
    summary: 'Makes a response, which is stored unless "store" is false',
    handler: (context, next) => (isOnList(context) ? createResponse(context) : next()),
  });
  route(app, {
    method: 'POST',
    path: '/v1/responses/input_tokens',
    tag: 'Inference',
    summary: 'How many tokens a request for a response has, with all that it goes on from',
    scopes: ['submit'],
    body: { example: { model: 'my-model', input: 'Hi' } },
    answers: { 200: { description: 'The number.', content: {} } },
    errors: [400, 404, 413, 429, 501, 503],
    handler: (context, next) => (isOnList(context) ? countInputTokens(context) : next()),
  });
  route(app, {
    method: 'GET',
    path: PATH,
    tag: 'Inference',
    summary: 'A WebSocket on which responses are made one after another',
    description: 'The client sends "response.create" frames and is sent the events (docs/responses.md).',
    scopes: SCOPES,
    answers: { 101: { description: 'The socket is open.' } },
    errors: [426],
    handler: (context, next) => {
      if (!isOnList(context)) return next();
      requireUpgrade(context, 'This address is for POST, and for WebSocket connections.');
      return openResponsesSocket(context, (request) => app.fetch(request, context.env, context.executionCtx));
    },
  });
  route(app, {
    method: 'GET',
    path: '/v1/responses/:id',
    tag: 'Inference',
    summary: 'A stored response, or the events of one that streams in the background',
    scopes: ['submit'],
    query: STREAM,
    answers: { 200: { description: 'The response.', content: {} } },
    errors: [400, 404, 503],
    handler: (context) => getResponse(context),
  });
  route(app, {
    method: 'DELETE',
    path: '/v1/responses/:id',
    tag: 'Inference',
    summary: 'A stored response is deleted, with the items that no other response has',
    scopes: ['submit'],
    answers: { 200: { description: 'It is deleted.', content: {} } },
    errors: [404, 409, 503],
    handler: (context) => deleteResponse(context),
  });
  route(app, {
    method: 'POST',
    path: '/v1/responses/:id/cancel',
    tag: 'Inference',
    summary: 'Cancels a response in the background; one that is final stays as it is',
    scopes: ['submit'],
    answers: { 200: { description: 'The response as it is now.', content: {} } },
    errors: [400, 404, 503],
    handler: (context) => cancelResponse(context),
  });
  route(app, {
    method: 'GET',
    path: '/v1/responses/:id/input_items',
    tag: 'Inference',
    summary: 'The items that a response was made from',
    scopes: ['submit'],
    query: ITEMS,
    answers: { 200: { description: 'A page.', content: {} } },
    errors: [400, 404, 503],
    handler: (context) => listInputItems(context),
  });
}
