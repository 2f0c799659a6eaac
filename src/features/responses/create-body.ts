import { idOf } from '../../protocol/ids.ts';
import { type Fields, type NewItem, type NewResponse, newItemId } from './types.ts';

/** A fault of a body of `POST /v1/responses`, in OpenAI's words where it has some. */
export class BodyFault extends Error {
  readonly param: string;
  readonly code: string | null;
  constructor(message: string, param: string, code: string | null = null) {
    super(message);
    this.param = param;
    this.code = code;
  }
}

/** The part of a request that concerns what is stored. */
export type CreateFields = Pick<
  NewResponse,
  'input' | 'previous_response_id' | 'conversation' | 'background' | 'stream' | 'store' | 'model'
> & { metadata: Fields };

const MOST_METADATA = 16;
const MOST_KEY = 64;
const MOST_VALUE = 512;

/**
 * Reads the fields of a request that concern what is stored. The engine says what is wrong with any other.
 * @param storesByDefault whether a request without the field `store` is stored
 * @throws BodyFault
 */
export function readCreate(body: Fields, storesByDefault: boolean): CreateFields {
  const background = flag(body, 'background', false);
  const store = flag(body, 'store', storesByDefault);
  const stream = flag(body, 'stream', false);
  const previous = text('previous_response_id', body.previous_response_id);
  const conversation = conversationIn(body);
  if (previous !== null && conversation !== null) {
    const message =
      "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Give one of them: a conversation has the items of its responses already.";
    throw new BodyFault(message, 'conversation', 'mutually_exclusive_parameters');
  }
  if (background && !store) {
    const message = 'Background responses are stored while they run: "background": true needs "store": true.';
    throw new BodyFault(message, 'background');
  }
  return {
    background,
    store,
    stream,
    previous_response_id: previous,
    conversation,
    model: typeof body.model === 'string' ? body.model : null,
    input: inputItems(body.input),
    metadata: metadataOf(body.metadata),
  };
}

/** Makes the response that a request asks for. */
export function newResponse(
  queueId: string,
  fields: CreateFields,
  submitter: { tenant: string | null; token_name: string | null },
  echo: string,
): NewResponse {
  const { metadata: _, ...rest } = fields;
  return { ...rest, ...submitter, id: idOf('response', queueId), echo };
}

/**
 * Returns the items of an input: a text is one message of the user.
 * @throws BodyFault for what is neither a text nor a list of objects
 */
export function inputItems(input: unknown): NewItem[] {
  if (typeof input === 'string') {
    const message = { type: 'message', role: 'user', content: [{ type: 'input_text', text: input }] };
    return [newItem(message)];
  }
  if (input === undefined || input === null) return [];
  if (Array.isArray(input) && input.every(isObject)) return input.map((item) => newItem(item));
  throw new BodyFault('input: expected a text or an array of items.', 'input');
}

/** Tells whether a value from outside is an object, as each item is. */
export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Makes an item of what a caller or an engine wrote. */
export function newItem(item: Fields): NewItem {
  const { id, type } = Object(item) as Fields;
  const known = typeof id === 'string' && id !== '' ? id : null;
  return { id: known ?? newItemId(typeof type === 'string' ? type : 'message'), json: JSON.stringify(item) };
}

/** @throws BodyFault for metadata beyond OpenAI's bounds */
export function metadataOf(value: unknown): Fields {
  if (value === undefined || value === null) return {};
  const pairs = Object.entries(value);
  const isGood =
    isObject(value) &&
    pairs.length <= MOST_METADATA &&
    pairs.every(
      ([key, one]) => key.length <= MOST_KEY && typeof one === 'string' && one.length <= MOST_VALUE,
    );
  if (isGood) return value;
  const message = `metadata: expected an object of up to ${MOST_METADATA} texts of up to ${MOST_VALUE} characters, with keys of up to ${MOST_KEY}.`;
  throw new BodyFault(message, 'metadata');
}

function conversationIn({ conversation }: Fields): string | null {
  if (!isObject(conversation)) return text('conversation', conversation);
  return text('conversation.id', conversation.id ?? '');
}

function text(name: string, value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string' && value !== '') return value;
  throw new BodyFault(`${name}: expected an id.`, name);
}

function flag(body: Fields, name: string, usual: boolean): boolean {
  const value = body[name];
  if (value === undefined || value === null) return usual;
  if (typeof value === 'boolean') return value;
  throw new BodyFault(`${name}: expected true or false.`, name);
}
