import type * as z from 'zod';
import { JSON_DEPTH } from './bounds.ts';
import { JsonFault } from './bytes.ts';
import { fieldsOf } from './fields.ts';
import { beginsObject, checkJson, elementsOf, jsonFields } from './json-text.ts';
import { keepTree } from './kept-json.ts';
import { isRelayedResult } from './payloads.ts';
import { schemaWords } from './schema-words.ts';

/**
 * The longest text that is parsed without a check of its nesting: however deep it is nested, parsing it takes no time.
 */
const SHORT_CHARACTERS = 64 * 1024;
const encoder = new TextEncoder();

/** The part of a schema that parsing uses; a faster check of the same may stand in its place. */
type Checked<T> = Pick<z.ZodType<T>, 'safeParse'>;

/** The result of parsing a text that should be a frame or a body. */
export type Parsed<T> =
  | { ok: true; value: T }
  /** `unknownType` is set for a JSON object whose `type` we do not know: it is ignored, and logged once. */
  | { ok: false; message: string; unknownType?: string };

/** Parses JSON text against a schema; the message names the first thing that is wrong and where. */
export function parseJson<T>(schema: Checked<T>, text: string): Parsed<T> {
  const read = readJson(text);
  return read.ok ? parseValue(schema, read.value) : read;
}

/**
 * Parses the frames of one message (`messagesOf`), each as `parseJson` does.
 * @param kept a member of frames that keeps its JSON (kept-json.ts)
 */
export function parseFrames<T>(schema: Checked<T>, text: string, kept?: string): Parsed<T>[] {
  const read = readJson(text);
  if (!read.ok) return [read];
  const frames: unknown[] = Array.isArray(read.value) ? read.value : [read.value];
  if (frames.length > MOST_FRAMES) return [{ ok: false, message: `more than ${MOST_FRAMES} frames` }];
  if (kept !== undefined && frames.some((frame) => hasJson(frame, kept))) keepIn(frames, text, kept);
  return frames.map((data) => parseValue(schema, data));
}

/**
 * The levels within a kept member that keep their JSON: they reach the members of an input in RunPod's form, and the
 * body of an engine's answer.
 */
const KEPT_LEVELS = 2;

/** Says whether a member of a frame has JSON to keep. Nobody reads the result of an answer that a relay carried. */
function hasJson(frame: unknown, kept: string): boolean {
  const member = fieldsOf(frame)[kept];
  if (typeof member !== 'object' || member === null || isRelayedResult(member)) return false;
  for (const _ in member) return true;
  return false;
}

function keepIn(frames: unknown[], text: string, name: string): void {
  try {
    const json = encoder.encode(text);
    const each = beginsObject(json) ? [json] : elementsOf(json, Number.POSITIVE_INFINITY);
    for (const [index, frame] of each.entries()) {
      if (!beginsObject(frame)) continue;
      const member = jsonFields(frame, [name], Number.POSITIVE_INFINITY)[name];
      if (member) keepTree((frames[index] as Record<string, unknown>)[name], member, KEPT_LEVELS);
    }
  } catch (error) {
    // A member that is nested deeper than the scan follows is written anew.
    if (!(error instanceof JsonFault)) throw error;
  }
}

function readJson(text: string): Parsed<unknown> {
  try {
    // A parser spends seconds on some million opening brackets, and the process serves nothing else meanwhile.
    if (text.length > SHORT_CHARACTERS) checkJson(encoder.encode(text), Number.POSITIVE_INFINITY);
    return { ok: true, value: JSON.parse(text) };
  } catch (error) {
    if (error instanceof JsonFault && error.code === 'nested_too_deep') {
      return { ok: false, message: `nested deeper than ${JSON_DEPTH} levels` };
    }
    return { ok: false, message: `not JSON: ${(error as Error).message}` };
  }
}

/** Checks a parsed value against a schema; the message names the first thing that is wrong and where. */
export function parseValue<T>(schema: Checked<T>, data: unknown): Parsed<T> {
  const parsed = schema.safeParse(data, { error: schemaWords });
  if (parsed.success) return { ok: true, value: parsed.data };
  const issue = parsed.error.issues[0];
  if (issue?.code === 'invalid_union' && issue.path.join('.') === 'type') {
    const named = (data as { type?: unknown }).type;
    // The `type` of a frame may be an object with a `toString` that is no function.
    const type = typeof named === 'string' ? named : `${JSON.stringify(named)}`;
    return { ok: false, message: `unknown frame type "${type}"`, unknownType: type };
  }
  const where = issue?.path.length ? `${issue.path.join('.')}: ` : '';
  return { ok: false, message: `${where}${issue?.message ?? 'not valid'}` };
}

/** A message takes no further frame once it has this many characters. */
const MOST_CHARACTERS = 64 * 1024;
/** The most frames in one message. */
export const MOST_FRAMES = 256;

/**
 * Packs frames into messages, in their order. Between extended peers a text message is one frame, or a JSON array of
 * several that were sent in one go: a message costs either side more than its contents.
 * @param frames as JSON
 */
export function messagesOf(frames: readonly string[]): string[] {
  const messages: string[] = [];
  let together: string[] = [];
  let characters = 0;
  for (const frame of frames) {
    together.push(frame);
    characters += frame.length;
    if (characters < MOST_CHARACTERS && together.length < MOST_FRAMES) continue;
    messages.push(messageOf(together));
    together = [];
    characters = 0;
  }
  if (together.length > 0) messages.push(messageOf(together));
  return messages;
}

function messageOf(frames: readonly string[]): string {
  return frames.length === 1 ? frames[0]! : `[${frames.join()}]`;
}
