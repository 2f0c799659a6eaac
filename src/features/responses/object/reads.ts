import type { Sql } from '../../../durable/ports.ts';
import { fieldsOf } from '../../../protocol/index.ts';
import type { Fields, Item, ItemsWanted, NewItem } from '../types.ts';
import { itemsOf } from './items.ts';
import { unpackBody } from './stored-body.ts';
import type { StoredResponse } from './tables.ts';

/** A page of items in the form of OpenAI's lists. */
export interface ItemPage {
  data: Item[];
  has_more: boolean;
}

/** Returns the Response object as callers read it. */
export function viewOf(sql: Sql, response: StoredResponse): Fields {
  const { status, output } = response;
  return { ...unpackBody(sql, response), status, output: itemsOf(sql, output).map(itemView) };
}

/**
 * Returns a page of the items with these numbers.
 * @returns null if `after` is none of them
 */
export function inputPage(
  sql: Sql,
  numbers: readonly number[],
  { after, limit, order }: ItemsWanted,
): ItemPage | null {
  const items = itemsOf(sql, numbers);
  if (order === 'desc') items.reverse();
  const at = after === null ? -1 : items.findIndex(({ id }) => id === after);
  if (after !== null && at === -1) return null;
  const rest = items.slice(at + 1);
  return { data: rest.slice(0, limit).map(itemView), has_more: rest.length > limit };
}

/** Returns an item as callers read it: a message has its content in parts, however it was given. */
export function itemView({ id, json }: NewItem): Item {
  // Engines and callers may have written anything.
  const fields: Fields = fieldsOf(JSON.parse(json));
  const { type = 'message', role, content } = fields;
  if (type !== 'message') return { ...fields, type: String(type), id };
  return {
    status: 'completed',
    ...fields,
    type,
    id,
    ...(typeof content === 'string' && { content: [textPart(role, content)] }),
  };
}

function textPart(role: unknown, text: string): Fields {
  return role === 'assistant' ? { type: 'output_text', text, annotations: [] } : { type: 'input_text', text };
}
