import { readerOf, viewerOf } from '../../../gateway/auth/authorize.ts';
import { HttpError } from '../../../gateway/errors.ts';
import { callResponses } from '../../../gateway/objects/calls.ts';
import { queueIdOf } from '../../../gateway/objects/ids.ts';
import { listOf, trueOrFalse, wholeNumber } from '../../../gateway/parameters.ts';
import type { GatewayContext } from '../../../gateway/routes/route.ts';
import type { ItemsWanted } from '../types.ts';
import { noResponse } from './errors.ts';
import { streamOf } from './stream.ts';

/** The items of a page: OpenAI's numbers. */
const PAGE = { usual: 20, most: 100 };

/** Answers `GET /v1/responses/{id}`, with the response or its events. */
export async function getResponse(context: GatewayContext): Promise<Response> {
  const id = context.req.param('id')!;
  const { env } = context;
  const { stream, starting_after: after } = context.req.query();
  if (stream !== undefined && trueOrFalse('stream', stream)) {
    const last = after === undefined ? -1 : wholeNumber('starting_after', after, 0, Number.MAX_SAFE_INTEGER);
    return await streamOf(context, id, last);
  }
  const viewer = readerOf(context.get('token'), env);
  const found = await callResponses(env, queueIdOf(env, context.req.raw), (responses) =>
    responses.get(id, viewer),
  );
  if (found === null) throw noResponse(id);
  return context.json(found.response);
}

/** Answers `DELETE /v1/responses/{id}`. */
export async function deleteResponse(context: GatewayContext): Promise<Response> {
  const id = context.req.param('id')!;
  const { env } = context;
  const viewer = viewerOf(context.get('token'));
  const became = await callResponses(env, queueIdOf(env, context.req.raw), (responses) =>
    responses.remove(id, viewer),
  );
  if (became === 'missing') throw noResponse(id);
  if (became === 'running') {
    const message = `Response "${id}" is still being made. Cancel it first, or wait for its end.`;
    throw new HttpError(409, message, 'response_delete_in_progress');
  }
  return context.json({ id, object: 'response', deleted: true });
}

/** Answers `GET /v1/responses/{id}/input_items`. */
export async function listInputItems(context: GatewayContext): Promise<Response> {
  const id = context.req.param('id')!;
  const { env } = context;
  const viewer = readerOf(context.get('token'), env);
  const wanted = itemsWanted(context);
  const queueId = queueIdOf(env, context.req.raw);
  const page = await callResponses(env, queueId, (responses) => responses.inputItems(id, wanted, viewer));
  if (page !== null) return context.json(listOf(page.data, page.has_more));
  const found = await callResponses(env, queueId, (responses) => responses.get(id, viewer));
  if (found === null) throw noResponse(id);
  throw new HttpError(400, `after: there is no item "${wanted.after}".`, 'invalid_parameter');
}

/** Reads which page of items a request wants. @throws HttpError 400 */
export function itemsWanted(context: GatewayContext): ItemsWanted {
  const { limit, order = 'desc', after } = context.req.query();
  if (order !== 'asc' && order !== 'desc')
    throw new HttpError(400, 'order: expected asc or desc.', 'invalid_parameter');
  return {
    limit: limit === undefined ? PAGE.usual : wholeNumber('limit', limit, 1, PAGE.most),
    order,
    after: after ?? null,
  };
}
