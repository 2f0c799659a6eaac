import type { Sql } from '../../../durable/ports.ts';
import type { Fields } from '../types.ts';
import { insertItems, itemsOf } from './items.ts';
import { type StoredResponse, shapeOfRoot } from './tables.ts';

/**
 * The Response object of a final response, as it is stored. The responses of a chain repeat the same instructions and
 * tools, so these fields together, the shape, are stored once, as an item is, for consecutive responses of a chain.
 */

/** The fields that differ from one response of a chain to the next, if they say anything. */
const OWN = ['completed_at', 'created_at', 'error', 'incomplete_details', 'metadata', 'usage'] as const;

/** Whether a field is what most responses of a chain have. */
function isUsual(value: unknown): boolean {
  return value === null || JSON.stringify(value) === '{}';
}

/** Returns the fields that the columns of a response say. */
function columnFields({ id, is_background, previous_id, conversation_id }: StoredResponse): Fields {
  return {
    id,
    object: 'response',
    background: is_background,
    store: true,
    previous_response_id: previous_id,
    conversation: conversation_id === null ? null : { id: conversation_id },
  };
}

/** Stores what a Response object shares with the one before it in the chain, and returns what its row has of it. */
export function packBody(
  sql: Sql,
  response: StoredResponse,
  body: string,
): Pick<StoredResponse, 'body' | 'shape'> {
  const fields = JSON.parse(body) as Fields;
  const known = columnFields(response);
  const own: Fields = {};
  const shared: Fields = {};
  for (const [name, value] of Object.entries(fields)) {
    if ((OWN as readonly string[]).includes(name) && !isUsual(value)) own[name] = value;
    else if (JSON.stringify(known[name]) !== JSON.stringify(value)) shared[name] = value;
  }
  const json = JSON.stringify(shared);
  const before = shapeOfRoot(sql, response.root);
  const isSame = before !== null && itemsOf(sql, [before])[0]?.json === json;
  const shape = isSame ? before : insertItems(sql, [{ id: '', json }], response.tenant)[0]!;
  return { body: JSON.stringify(own), shape };
}

/** Returns the Response object of a row, without status and output. */
export function unpackBody(sql: Sql, response: StoredResponse): Fields {
  const { body, shape } = response;
  const own = JSON.parse(body) as Fields;
  if (shape === null) return own;
  const [shared] = itemsOf(sql, [shape]);
  return { ...columnFields(response), ...(JSON.parse(shared?.json ?? '{}') as Fields), ...own };
}
