import {
  CALL_KINDS,
  PART_KINDS,
  PART_LISTS,
  type PartList,
  partsIn,
  partText,
  type ResponseEvent,
  Said,
} from './said.ts';
import type { Fields } from './types.ts';

/** The place of a part: the item's number, the list and the part's number in it. */
export interface PartPlace {
  index: number;
  list: PartList;
  at: number;
}

/** Writes the events of an output. What was said already is not said again. */
export class OutputEvents {
  readonly said: Said;
  #next: number | null;
  #made: ResponseEvent[] = [];

  /** @param next the sequence number of the next event; null: the events get none */
  constructor(said = new Said(), next: number | null = null) {
    this.said = said;
    this.#next = next;
  }

  /** Returns the events that were made since the last call. */
  take(): ResponseEvent[] {
    const made = this.#made;
    this.#made = [];
    return made;
  }

  /** Writes an event. */
  say(type: string, fields: Fields): void {
    const event = {
      type,
      ...(this.#next !== null && { sequence_number: this.#next++ }),
      ...fields,
    };
    this.said.push(event);
    this.#made.push(event);
  }

  /** Begins an item. @returns its number in the output */
  addItem(item: Fields): number {
    const index = this.said.items.length;
    this.say('response.output_item.added', { output_index: index, item });
    return index;
  }

  /** Begins a part of an item. */
  addPart(place: PartPlace, part: Fields): void {
    this.say(`${partEvents(place)}.added`, { ...this.#partFields(place), part });
  }

  /** Writes the next piece of a part's text. */
  partDelta(place: PartPlace, delta: string, logprobs: unknown[] = []): void {
    const { part } = this.said.items[place.index]!.parts[place.list][place.at]!;
    const { text } = PART_KINDS[String(part.type)]!;
    const more = part.type === 'output_text' ? { logprobs } : {};
    this.say(`${text}.delta`, { ...this.#partFields(place), delta, ...more });
  }

  /** Writes the next piece of a call's arguments. */
  callDelta(index: number, delta: string): void {
    const { item } = this.said.items[index]!;
    this.say(`${CALL_KINDS[String(item.type)]!.text}.delta`, { ...this.#itemFields(index), delta });
  }

  /** Writes all of a part that is not said yet. @param part as it is at its end */
  endPart(place: PartPlace, part: Fields): void {
    const kind = PART_KINDS[String(part.type)];
    const parts = this.said.items[place.index]!.parts[place.list];
    if (parts[place.at] === undefined) this.addPart(place, emptied(part));
    const said = parts[place.at]!;
    if (kind !== undefined) {
      const text = partText(part);
      if (text.length > said.text.length) this.partDelta(place, text.slice(said.text.length));
      const more = part.type === 'output_text' ? { logprobs: part.logprobs ?? [] } : {};
      if (!said.isTextDone)
        this.say(`${kind.text}.done`, { ...this.#partFields(place), [kind.field]: text, ...more });
    }
    if (!parts[place.at]!.isDone) this.say(`${partEvents(place)}.done`, { ...this.#partFields(place), part });
  }

  /** Writes all of an item that is not said yet. @param item as it is at its end */
  endItem(index: number, item: Fields): void {
    if (this.said.items[index] === undefined) this.addItem(beginningOf(item));
    if (this.said.items[index]!.isDone) return;
    for (const list of PART_LISTS)
      for (const [at, part] of partsIn(item, list).entries()) this.endPart({ index, list, at }, part);
    const call = CALL_KINDS[String(item.type)];
    if (call !== undefined) this.#endCall(index, call, item);
    this.say('response.output_item.done', { output_index: index, item });
  }

  #endCall(index: number, { text, field }: { text: string; field: string }, item: Fields): void {
    const { text: said, isTextDone } = this.said.items[index]!;
    const whole = String(item[field] ?? '');
    if (whole.length > said.length) this.callDelta(index, whole.slice(said.length));
    if (isTextDone) return;
    this.say(`${text}.done`, { ...this.#itemFields(index), name: item.name, [field]: whole });
  }

  #itemFields(index: number): Fields {
    return { item_id: this.said.items[index]!.item.id, output_index: index };
  }

  #partFields({ index, list, at }: PartPlace): Fields {
    return { ...this.#itemFields(index), [list === 'summary' ? 'summary_index' : 'content_index']: at };
  }
}

function partEvents({ list }: PartPlace): string {
  return list === 'summary' ? 'response.reasoning_summary_part' : 'response.content_part';
}

function emptied(part: Fields): Fields {
  const kind = PART_KINDS[String(part.type)];
  if (kind === undefined) return part;
  return { ...part, [kind.field]: '', ...(Array.isArray(part.logprobs) && { logprobs: [] }) };
}

/** Returns an item as it is when it begins. */
function beginningOf(item: Fields): Fields {
  const call = CALL_KINDS[String(item.type)];
  const lists = PART_LISTS.filter((list) => Array.isArray(item[list]));
  return {
    ...item,
    ...(call && { [call.field]: '' }),
    ...Object.fromEntries(lists.map((list) => [list, []])),
    ...(item.status !== undefined && { status: 'in_progress' }),
  };
}
