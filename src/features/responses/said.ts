import { fieldsOf } from '../../protocol/index.ts';
import type { Fields } from './types.ts';

/** An event of the Responses API; its sequence number may still be missing. */
export interface ResponseEvent extends Fields {
  type: string;
}

/** The lists of an item that hold its parts. */
export const PART_LISTS = ['summary', 'content'] as const;
export type PartList = (typeof PART_LISTS)[number];

/** How the events of one kind of part are called, and where a part has its text. */
interface PartKind {
  list: PartList;
  /** The beginning of the events' names that tell its text. */
  text: string;
  field: 'text' | 'refusal';
}

/** The kinds of parts whose text is told piece by piece. */
export const PART_KINDS: Readonly<Record<string, PartKind>> = {
  output_text: { list: 'content', text: 'response.output_text', field: 'text' },
  refusal: { list: 'content', text: 'response.refusal', field: 'refusal' },
  reasoning_text: { list: 'content', text: 'response.reasoning_text', field: 'text' },
  summary_text: { list: 'summary', text: 'response.reasoning_summary_text', field: 'text' },
};

/** The items whose own text is told piece by piece: the name of their events, and of the field with the text. */
export const CALL_KINDS: Readonly<Record<string, { text: string; field: string }>> = {
  function_call: { text: 'response.function_call_arguments', field: 'arguments' },
  custom_tool_call: { text: 'response.custom_tool_call_input', field: 'input' },
};

/** The content of one part of an item, as far as events have given it. */
interface SaidPart {
  /** The part as it was last given whole. */
  part: Fields;
  text: string;
  logprobs: unknown[];
  isTextDone: boolean;
  isDone: boolean;
}

/** An item of an output, as far as events have given it. */
export interface SaidItem {
  /** The item as it was last given whole. */
  item: Fields;
  /** The arguments or the input of a call. */
  text: string;
  isTextDone: boolean;
  parts: Record<PartList, SaidPart[]>;
  isDone: boolean;
}

/** The output of a response as far as its events have given it, read from them one by one. */
export class Said {
  readonly items: SaidItem[] = [];
  #isOver = false;

  /** Whether the last event has come. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Takes the next event; one that says nothing of the output changes nothing. */
  push(event: ResponseEvent): void {
    const { type } = event;
    const index = Number(event.output_index);
    if (OVER.has(type)) this.#isOver = true;
    else if (!(index >= 0 && index <= this.items.length)) return;
    else if (type === 'response.output_item.added') this.items[index] = added(fieldsOf(event.item));
    else if (type === 'response.output_item.done') this.#itemDone(index, fieldsOf(event.item));
    else if (PART_EVENT.test(type)) this.#part(this.items[index], event);
    else if (type.endsWith('.delta') || type.endsWith('.done')) this.#text(this.items[index], event);
  }

  /** Returns an item as it stands, with all that was said of it. */
  itemNow(index: number, status: string): Fields {
    const { item, text, parts, isDone } = this.items[index]!;
    if (isDone) return item;
    const call = CALL_KINDS[String(item.type)];
    const lists = PART_LISTS.filter((list) => parts[list].length > 0 || Array.isArray(item[list]));
    return {
      ...item,
      ...(call && { [call.field]: text }),
      ...Object.fromEntries(lists.map((list) => [list, parts[list].map(partNow)])),
      ...('status' in item && { status }),
    };
  }

  /** Returns the output as it stands. @param status the status of the items that are not done */
  outputNow(status: 'in_progress' | 'incomplete'): Fields[] {
    return this.items.map((_, index) => this.itemNow(index, status));
  }

  #itemDone(index: number, item: Fields): void {
    const said = this.items[index] ?? added(item);
    this.items[index] = { ...said, item, isDone: true };
  }

  #part(said: SaidItem | undefined, event: ResponseEvent): void {
    if (said === undefined) return;
    const { list, at } = placeIn(event);
    const part = fieldsOf(event.part);
    if (!(at >= 0 && at <= said.parts[list].length)) return;
    const before = said.parts[list][at];
    if (event.type.endsWith('.done')) {
      if (before) said.parts[list][at] = { ...before, part, isDone: true };
    } else said.parts[list][at] = newPart(part);
  }

  #text(said: SaidItem | undefined, event: ResponseEvent): void {
    if (said === undefined) return;
    const name = event.type.slice(0, event.type.lastIndexOf('.'));
    const isDone = event.type.endsWith('.done');
    const call = CALL_KINDS[String(said.item.type)];
    if (call?.text === name) {
      said.text = isDone ? String(event[call.field]) : said.text + String(event.delta);
      said.isTextDone ||= isDone;
      return;
    }
    const found = Object.entries(PART_KINDS).find(([, { text }]) => text === name);
    if (found === undefined) return;
    const [kind, { field }] = found;
    const { list, at } = placeIn(event);
    if (!(at >= 0 && at <= said.parts[list].length)) return;
    said.parts[list][at] ??= newPart({ type: kind });
    const part = said.parts[list][at];
    part.text = isDone ? String(event[field]) : part.text + String(event.delta);
    if (!isDone && Array.isArray(event.logprobs)) part.logprobs.push(...event.logprobs);
    part.isTextDone ||= isDone;
  }
}

/** Reads what events have said. */
export function saidOf(events: Iterable<ResponseEvent>): Said {
  const said = new Said();
  for (const event of events) said.push(event);
  return said;
}

/** The text of a part. */
export function partText(part: Fields): string {
  const kind = PART_KINDS[String(part.type)];
  return kind ? String(part[kind.field] ?? '') : '';
}

/** The parts of an item in one of its lists. */
export function partsIn(item: Fields, list: PartList): Fields[] {
  const parts = item[list];
  return Array.isArray(parts) ? (parts as Fields[]) : [];
}

const OVER: ReadonlySet<string> = new Set(['response.completed', 'response.incomplete', 'response.failed']);

/** Matches the events that begin or end a part; vLLM calls those of reasoning by a name of their own. */
const PART_EVENT = /^response\.(?:content_part|reasoning_part|reasoning_summary_part)\.(?:added|done)$/;

function added(item: Fields): SaidItem {
  return { item, text: '', isTextDone: false, parts: { summary: [], content: [] }, isDone: false };
}

function newPart(part: Fields): SaidPart {
  return { part, text: partText(part), logprobs: [], isTextDone: false, isDone: false };
}

function partNow({ part, text, logprobs, isDone }: SaidPart): Fields {
  const kind = PART_KINDS[String(part.type)];
  if (isDone || kind === undefined) return part;
  return { ...part, [kind.field]: text, ...('logprobs' in part && { logprobs: [...logprobs] }) };
}

function placeIn({ summary_index, content_index }: ResponseEvent): { list: PartList; at: number } {
  return typeof summary_index === 'number'
    ? { list: 'summary', at: summary_index }
    : { list: 'content', at: Number(content_index ?? 0) };
}
