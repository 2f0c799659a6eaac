import * as z from 'zod';
import { DIALECTS } from './engine-routes.ts';
import { Moves, STAGES, type Stage } from './moves.ts';
import { parseJson } from './parse.ts';
import { RECORD_HEADER_BYTES, RECORD_TYPE } from './record-headers.ts';

/**
 * The binary records of the answer socket, several to a message.
 *
 * Each record: type (1 byte), stream (u32), length (u32), body; big-endian.
 * `bytes` and `taken` carry an offset (f64, exact to 2^53) at the start of the body.
 * The records and who sends them are listed in docs/protocol.md.
 */

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const ASCII = /^[\t\x20-\x7e]*$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** The status and the headers of an answer, and how the relay treats it. */
export const AnswerHead = z.object({
  status: z.number().int().min(200).max(599),
  headers: z.record(z.string().regex(HEADER_NAME), z.string().regex(HEADER_VALUE)),
  /** Whether the answer is a stored job's: the relay keeps it for readers, of which there may be none. */
  replayed: z.boolean().optional(),
  /** The API whose form an error at the end of an event stream takes; `openai` if left out or not known here. */
  dialect: z.enum(DIALECTS).optional().catch(undefined),
  /** The reason why no other worker could continue this event stream. */
  stays: z.string().optional(),
});
export type AnswerHead = z.infer<typeof AnswerHead>;

/**
 * Returns those headers of an engine that reach a caller unchanged; Cloudflare's runtime would re-encode bytes beyond
 * ASCII as UTF-8.
 */
export function passableHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const passable: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (HEADER_NAME.test(name) && ASCII.test(value)) passable[name] = value;
  }
  return passable;
}

/** The reason why an answer ended early: the relay tells the caller, the gateway decides about another attempt. */
export const BrokenReason = z.object({
  message: z.string(),
  /** The code of the reason: one of FAILURE_CODES, or a release reason. */
  code: z.string(),
  /** Whether another attempt may succeed. */
  retryable: z.boolean(),
  http_status: z.number().int().min(100).max(599).optional(),
});
export type BrokenReason = z.infer<typeof BrokenReason>;

export type AnswerRecord =
  | { type: 'head'; stream: number; head: AnswerHead }
  | { type: 'bytes'; stream: number; offset: number; data: Uint8Array }
  /** `size` is the length of the whole answer, so that a relay notices missing bytes. */
  | { type: 'end'; stream: number; size: number }
  | { type: 'broken'; stream: number; reason: BrokenReason }
  /** Says that another worker may continue the answer. */
  | { type: 'moves'; stream: number; moves: Moves }
  /**
   * The token ids of the bytes up to `offset`, sent after those bytes; `before` ids of the answer were sent earlier.
   */
  | { type: 'ids'; stream: number; offset: number; before: number; stage: Stage; ids: readonly number[] }
  | { type: 'pause'; stream: number }
  | { type: 'resume'; stream: number }
  | { type: 'taken'; stream: number; offset: number }
  | { type: 'cancel'; stream: number; reason: string };

const TYPE_NAME = Object.fromEntries(
  Object.entries(RECORD_TYPE).map(([name, number]) => [number, name]),
) as Record<number, AnswerRecord['type']>;

const OFFSET_BYTES = 8;
/** The size of each number of an `ids` record: the count of earlier ids, the stage, and each id. */
const NUMBER_BYTES = 4;
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const NOTHING = new Uint8Array(0);

/** Thrown for a message that is not a run of whole, known records. */
export class AnswerFormatError extends Error {}

class RecordError extends Error {}

/** Returns how many bytes one record will take in a message. */
export function recordBytes(dataBytes: number): number {
  return RECORD_HEADER_BYTES + OFFSET_BYTES + dataBytes;
}

/** Encodes many records as one binary message. */
export function encodeRecords(records: readonly AnswerRecord[]): Uint8Array<ArrayBuffer> {
  const bodies = records.map(bodyOf);
  let size = 0;
  for (let index = 0; index < records.length; index++) {
    size += RECORD_HEADER_BYTES + numberBytes(records[index]!) + bodies[index]!.byteLength;
  }
  const message = emptyMessage(size);
  let at = 0;
  for (let index = 0; index < records.length; index++) {
    const record = records[index]!;
    const body = bodies[index]!;
    const numbers = numberBytes(record);
    message[at] = RECORD_TYPE[record.type];
    putUint32(message, at + 1, record.stream);
    putUint32(message, at + 5, numbers + body.byteLength);
    at += RECORD_HEADER_BYTES;
    if (numbers > 0) putNumbers(message, at, record);
    message.set(body, at + numbers);
    at += numbers + body.byteLength;
  }
  return message;
}

/** Returns bytes that are all to be written. Node takes those of short messages from a pool. */
const emptyMessage: (size: number) => Uint8Array<ArrayBuffer> =
  typeof Buffer === 'undefined' ? (size) => new Uint8Array(size) : (size) => Buffer.allocUnsafe(size);

/**
 * Decodes the records of one message. `bytes` are views into it, not copies.
 * @param malformed called with a record whose content cannot be read, which concerns its stream alone and is left out;
 *   without it such a record throws
 * @throws AnswerFormatError when the message is cut short or holds a record of no known type
 */
export function decodeRecords(
  message: ArrayBuffer | Uint8Array,
  malformed: (stream: number, problem: string) => void = thrown,
): AnswerRecord[] {
  const bytes = message instanceof Uint8Array ? message : new Uint8Array(message);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const records: AnswerRecord[] = [];
  let at = 0;
  while (at < bytes.byteLength) {
    if (at + RECORD_HEADER_BYTES > bytes.byteLength) throw new AnswerFormatError('record header cut short');
    const type = TYPE_NAME[view.getUint8(at)];
    if (!type) throw new AnswerFormatError(`unknown record type ${view.getUint8(at)}`);
    const stream = view.getUint32(at + 1);
    const length = view.getUint32(at + 5);
    at += RECORD_HEADER_BYTES;
    if (at + length > bytes.byteLength) throw new AnswerFormatError(`${type} record cut short`);
    try {
      records.push(recordOf(type, stream, { view, at, end: at + length }));
    } catch (error) {
      if (!(error instanceof RecordError)) throw error;
      malformed(stream, error.message);
    }
    at += length;
  }
  return records;
}

/** Returns how many bytes of numbers stand before the body of a record. */
function numberBytes(record: AnswerRecord): number {
  switch (record.type) {
    case 'bytes':
    case 'taken':
    case 'end':
      return OFFSET_BYTES;
    case 'ids':
      return OFFSET_BYTES + NUMBER_BYTES * (2 + record.ids.length);
    default:
      return 0;
  }
}

function putNumbers(message: Uint8Array, at: number, record: AnswerRecord): void {
  if (record.type === 'end') putFloat64(message, at, record.size);
  else if ('offset' in record) putFloat64(message, at, record.offset);
  if (record.type !== 'ids') return;
  const { before, stage, ids } = record;
  const first = at + OFFSET_BYTES;
  putUint32(message, first, before);
  putUint32(message, first + NUMBER_BYTES, STAGES.indexOf(stage));
  for (let index = 0; index < ids.length; index++)
    putUint32(message, first + NUMBER_BYTES * (2 + index), ids[index]!);
}

function putUint32(message: Uint8Array, at: number, value: number): void {
  message[at] = value >>> 24;
  message[at + 1] = value >>> 16;
  message[at + 2] = value >>> 8;
  message[at + 3] = value;
}

/** A buffer for one number, whose bytes are copied: a view of each message would cost more than all that is written. */
const float = new DataView(new ArrayBuffer(OFFSET_BYTES));

function putFloat64(message: Uint8Array, at: number, value: number): void {
  float.setFloat64(0, value);
  for (let index = 0; index < OFFSET_BYTES; index++) message[at + index] = float.getUint8(index);
}

function bodyOf(record: AnswerRecord): Uint8Array {
  switch (record.type) {
    case 'head':
      return encoder.encode(JSON.stringify(record.head));
    case 'bytes':
      return record.data;
    case 'broken':
      return encoder.encode(JSON.stringify(record.reason));
    case 'cancel':
      return encoder.encode(record.reason);
    case 'moves':
      return encoder.encode(JSON.stringify(record.moves));
    default:
      return NOTHING;
  }
}

function thrown(stream: number, problem: string): never {
  throw new AnswerFormatError(`stream ${stream}: ${problem}`);
}

/** The body of a record in its message: a view of each body would cost more than reading it. */
interface Body {
  view: DataView;
  at: number;
  end: number;
}

/** @throws RecordError */
function recordOf(type: AnswerRecord['type'], stream: number, body: Body): AnswerRecord {
  switch (type) {
    case 'head':
      return { type, stream, head: headIn(body) };
    case 'bytes':
      return { type, stream, offset: offsetOf(type, body), data: bytesIn(body, OFFSET_BYTES) };
    case 'taken':
      return { type, stream, offset: offsetOf(type, body) };
    case 'end':
      return { type, stream, size: offsetOf(type, body) };
    case 'broken':
      return { type, stream, reason: json(type, textIn(body), BrokenReason) };
    case 'cancel':
      return { type, stream, reason: textIn(body) };
    case 'moves':
      return { type, stream, moves: json(type, textIn(body), Moves) };
    case 'ids':
      return idsIn(stream, offsetOf(type, body), body);
    default:
      return { type, stream };
  }
}

function offsetOf(type: string, { view, at, end }: Body): number {
  if (end - at < OFFSET_BYTES) throw new RecordError(`${type} record without its offset`);
  const offset = view.getFloat64(at);
  if (!Number.isSafeInteger(offset) || offset < 0) throw new RecordError(`${type} record at ${offset}`);
  return offset;
}

/** Returns the bytes of a body behind its first ones. */
function bytesIn({ view, at, end }: Body, behind = 0): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset + at + behind, end - at - behind);
}

function textIn(body: Body): string {
  return decoder.decode(bytesIn(body));
}

/**
 * The head that was read last: answers of one engine begin alike, and checking a head costs as much as all the rest.
 */
let newestHead: { text: string; head: AnswerHead } | null = null;

function headIn(body: Body): AnswerHead {
  const text = textIn(body);
  if (newestHead?.text !== text) newestHead = { text, head: json('head', text, AnswerHead) };
  return newestHead.head;
}

function json<T>(type: string, text: string, schema: z.ZodType<T>): T {
  const parsed = parseJson(schema, text);
  if (parsed.ok) return parsed.value;
  throw new RecordError(`${type} record whose body cannot be read: ${parsed.message}`);
}

function idsIn(stream: number, offset: number, { view, at, end }: Body): AnswerRecord {
  const numbers = at + OFFSET_BYTES;
  const first = numbers + NUMBER_BYTES * 2;
  const isWhole = first <= end && (end - first) % NUMBER_BYTES === 0;
  const stage = isWhole ? STAGES[view.getUint32(numbers + NUMBER_BYTES)] : undefined;
  if (stage === undefined) throw new RecordError(`ids record of ${end - at} bytes`);
  const ids: number[] = [];
  for (let place = first; place < end; place += NUMBER_BYTES) ids.push(view.getUint32(place));
  return { type: 'ids', stream, offset, before: view.getUint32(numbers), stage, ids };
}
