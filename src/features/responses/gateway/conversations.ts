import { readerOf, submitterOf, viewerOf } from '../../../gateway/auth/authorize.ts';
import { parseObject, readBody } from '../../../gateway/bodies/body.ts';
import { mostBodyBytes } from '../../../gateway/inference/read-request.ts';
import { callResponses } from '../../../gateway/objects/calls.ts';
import { queueIdOf } from '../../../gateway/objects/ids.ts';
import { listOf } from '../../../gateway/parameters.ts';
import type { GatewayContext } from '../../../gateway/routes/route.ts';
import { variableOf } from '../../../settings/queue-settings.ts';
import { BodyFault, isObject, metadataOf, newItem } from '../create-body.ts';
import type { Fields, NewItem, Refusal } from '../types.ts';
import { refused, told } from './create.ts';
import { whenFree } from './lock.ts';
import { itemsWanted } from './reads.ts';
import { requireStoring } from './store-policy.ts';

/** The most items that are added at a time. */
const MOST_ADDED = 20;

/** Answers `POST /v1/conversations`. */
export async function createConversation(context: GatewayContext): Promise<Response> {
  const { env, req } = context;
  const token = context.get('token');
  requireStoring(token, null);
  const { tenant } = submitterOf(token);
  const body = await bodyOf(context);
  const [metadata, items] = reading(() => [metadataOf(body.metadata), itemsOf(body.items ?? [])] as const);
  const made = await callResponses(env, queueIdOf(env, req.raw), (responses) =>
    responses.createConversation(tenant, metadata, items, token?.stored_bytes ?? null),
  );
  return context.json(told(made));
}

/** Answers `GET /v1/conversations/{id}`. */
export async function getConversation(context: GatewayContext): Promise<Response> {
  const { id, queueId, reader } = asked(context);
  return context.json(
    told(await callResponses(context.env, queueId, (responses) => responses.getConversation(id, reader))),
  );
}

/** Answers `POST /v1/conversations/{id}`: the metadata is changed. */
export async function changeConversation(context: GatewayContext): Promise<Response> {
  const { id, queueId, reader } = asked(context);
  const { metadata: given } = await bodyOf(context);
  const metadata = reading(() => changedMetadata(given));
  return context.json(
    told(
      await callResponses(context.env, queueId, (responses) =>
        responses.changeConversation(id, metadata, reader),
      ),
    ),
  );
}

/** Answers `DELETE /v1/conversations/{id}`. */
export async function deleteConversation(context: GatewayContext): Promise<Response> {
  const { id, queueId, viewer } = asked(context);
  const refusal = await whenFree(context.env, queueId, id, async () =>
    callResponses(context.env, queueId, (responses) => responses.removeConversation(id, viewer)),
  );
  if (refusal !== null) throw refused(refusal);
  return context.json({ id, object: 'conversation.deleted', deleted: true });
}

/** Answers `POST /v1/conversations/{id}/items`. */
export async function addItems(context: GatewayContext): Promise<Response> {
  const { id, queueId, reader } = asked(context);
  const token = context.get('token');
  requireStoring(token, null);
  const most = token?.stored_bytes ?? null;
  const body = await bodyOf(context);
  const added = reading(() => itemsOf(body.items));
  const { items } = told(
    await whenFree(context.env, queueId, id, async () =>
      callResponses(context.env, queueId, (responses) =>
        responses.addItems(id, added, reader, most, mostBodyBytes(context.env)),
      ),
    ),
  );
  return context.json(listOf(items, false));
}

/** Answers `GET /v1/conversations/{id}/items`. */
export async function listConversationItems(context: GatewayContext): Promise<Response> {
  const { id, queueId, reader } = asked(context);
  const wanted = itemsWanted(context);
  const page = told(
    await callResponses(context.env, queueId, (responses) => responses.conversationItems(id, wanted, reader)),
  );
  return context.json(listOf(page.data, page.has_more));
}

/** Answers `GET /v1/conversations/{id}/items/{item_id}`. */
export async function getItem(context: GatewayContext): Promise<Response> {
  const { id, queueId, reader } = asked(context);
  const itemId = context.req.param('item')!;
  const { item } = told(
    await callResponses(context.env, queueId, (responses) => responses.conversationItem(id, itemId, reader)),
  );
  return context.json(item);
}

/** Answers `DELETE /v1/conversations/{id}/items/{item_id}` with the conversation, as OpenAI does. */
export async function deleteItem(context: GatewayContext): Promise<Response> {
  const { id, queueId, viewer } = asked(context);
  const itemId = context.req.param('item')!;
  const conversation = told(
    await whenFree(context.env, queueId, id, async () =>
      callResponses(context.env, queueId, (responses) => responses.removeItem(id, itemId, viewer)),
    ),
  );
  return context.json(conversation);
}

/** Returns which conversation a request is about, and whose conversations its caller may read and delete. */
function asked(context: GatewayContext) {
  const { env, req } = context;
  const token = context.get('token');
  return {
    id: req.param('id')!,
    queueId: queueIdOf(env, req.raw),
    reader: readerOf(token, env),
    viewer: viewerOf(token),
  };
}

/** Reads a body, which may be left out. */
async function bodyOf({ env, req }: GatewayContext): Promise<Fields> {
  if (req.raw.body === null) return {};
  const { bytes, release } = await readBody(req.raw, env, mostBodyBytes(env), variableOf('max_body_bytes'));
  try {
    return bytes.byteLength === 0 ? {} : parseObject(bytes);
  } finally {
    release();
  }
}

function reading<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof BodyFault)) throw error;
    const { message, code, param } = error;
    throw refused({ status: 400, message, code, param } satisfies Refusal);
  }
}

/** Returns what metadata becomes: null empties it. @throws BodyFault where a change has none */
function changedMetadata(value: unknown): Fields {
  if (value !== undefined) return metadataOf(value);
  throw new BodyFault("Missing required parameter: 'metadata'.", 'metadata', 'missing_required_parameter');
}

/** @throws BodyFault */
function itemsOf(value: unknown): NewItem[] {
  if (Array.isArray(value) && value.length <= MOST_ADDED && value.every(isObject))
    return value.map((item) => newItem(item));
  throw new BodyFault(`items: expected an array of up to ${MOST_ADDED} items.`, 'items');
}
