import * as z from 'zod';
import {
  boundaryOf,
  type EngineRequest,
  formFields,
  type Json,
  type JsonEdits,
  jsonFields,
  jsonOrText,
  parseJsonBytes,
  parseValue,
  replaceBytes,
  routeAt,
  withMembers,
  writeJson,
} from '../../protocol/index.ts';
import { finalFailure } from '../failure.ts';
import type { Attempt } from './attempt.ts';

const OPEN_BRACE = 0x7b;

/** Returns a request's body for the engine, with the engine's own name in place of an alias of its model. */
export function requestBody(
  request: EngineRequest,
  aliases: ReadonlySet<string>,
  served: string | undefined,
): string | Uint8Array | undefined {
  const {
    body = request.body_base64 === undefined ? undefined : Buffer.from(request.body_base64, 'base64'),
  } = request;
  if (body === undefined || served === undefined) return body;
  if (typeof body === 'string') return replaceModelAlias(body, aliases, served);
  const boundary = boundaryOf(request.content_type);
  if (boundary !== null) return replaceInForm(body, boundary, aliases, served);
  return isJson(body) ? replaceModelAlias(body, aliases, served) : body;
}

/** Tells whether a body may be a JSON object, possibly after blanks. */
export function isJson(body: Uint8Array): boolean {
  const at = body.findIndex((byte) => byte > 0x20);
  return body[at] === OPEN_BRACE;
}

function replaceInForm(
  body: Uint8Array,
  boundary: string,
  aliases: ReadonlySet<string>,
  served: string,
): Uint8Array {
  const value = formFields(body, boundary).get('model');
  const isAlias = value !== undefined && aliases.has(new TextDecoder().decode(value));
  return isAlias ? replaceBytes(body, value, served) : body;
}

/**
 * Puts the served model's name where the body's own `model` is an alias, and leaves every other byte unchanged.
 * @param body JSON of an object; anything else is returned as it is
 */
export function replaceModelAlias(body: Json, aliases: ReadonlySet<string>, served: string): Json {
  if (aliases.size === 0) return body;
  try {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const { model } = jsonFields(bytes, ['model'], Number.POSITIVE_INFINITY);
    const name = model === undefined ? null : parseJsonBytes(model);
    if (typeof name !== 'string' || !aliases.has(name)) return body;
    return withMembers(body, { model: JSON.stringify(served) });
  } catch {
    // The engine itself reports that the body is malformed.
    return body;
  }
}

/** The file name of audio whose format is not known. */
export const AUDIO_NAME = 'audio.wav';
/** Matches the names of files in the formats that OpenAI's route takes. */
const AUDIO_FILE = /\.(?:flac|m4a|mp3|mp4|mpeg|mpga|oga|ogg|opus|wav|webm)$/i;
/** The formats whose media types have another name. */
const AUDIO_TYPES: Readonly<Record<string, string>> = {
  mpeg: 'mp3',
  'x-m4a': 'm4a',
  wave: 'wav',
  'x-wav': 'wav',
};
const AUDIO_TYPE = /^data:audio\/([\w.+-]{1,20})[;,]/i;

const DATA_URL = /^data:[^,]*?(;base64)?,(.*)$/s;

interface Form {
  body: Uint8Array;
  contentType: string;
}

/** Tells whether a request may be meant for `audioForm`. */
export function namesAudio({ path, body }: EngineRequest): boolean {
  return typeof body === 'string' && routeAt(path)?.takesAudio === true;
}

/**
 * Turns a JSON request for the text of audio into the form that the engine's route takes. The request names the audio
 * as lines of `vllm run-batch` do (`file_url`: an address, or the audio itself as a data URL).
 * @returns null: it is no such request
 * @throws JobFailure `invalid_request`, or `payload_unreachable` if the audio cannot be fetched
 */
export async function audioForm(attempt: Attempt, request: EngineRequest): Promise<Form | null> {
  const asked = jsonOrText(String(request.body));
  // Destructuring a long text that is no JSON as an object would block the worker for seconds.
  if (typeof asked !== 'object' || asked === null) return null;
  const { file_url: url, file, ...fields } = asked as Record<string, unknown>;
  if (typeof url !== 'string') return null;
  if (file !== undefined) {
    throw finalFailure('invalid_request', 'file: a request in JSON has none; file_url says where it lies');
  }
  return await formOf(await audioAt(attempt, url), audioName(url), {
    ...fields,
    ...modelIn(attempt, fields),
  });
}

/**
 * Makes the form that the engine's audio routes take.
 * @param name the file's name: engines that do not look at the bytes tell the format by it
 * @param fields the form's other fields; those that are undefined or null are left out
 */
export async function formOf(audio: Buffer, name: string, fields: Record<string, unknown>): Promise<Form> {
  const form = new FormData();
  form.set('file', new Blob([audio]), name);
  for (const [name, value] of Object.entries(fields)) {
    for (const one of [value].flat()) if (one != null) form.append(name, textOf(one));
  }
  const encoded = new Response(form);
  return {
    body: new Uint8Array(await encoded.arrayBuffer()),
    contentType: encoded.headers.get('content-type')!,
  };
}

/** Returns the name of audio at an address, or in a data URL, with its format if that is known. */
export function audioName(url: string): string {
  if (url.startsWith('data:')) {
    const [, type = 'wav'] = AUDIO_TYPE.exec(url.slice(0, 64)) ?? [];
    const name = `audio.${AUDIO_TYPES[type.toLowerCase()] ?? type}`;
    return AUDIO_FILE.test(name) ? name : AUDIO_NAME;
  }
  const name = URL.parse(url)?.pathname.split('/').at(-1) ?? '';
  return AUDIO_FILE.test(name) && name.length <= 255 ? name : AUDIO_NAME;
}

async function audioAt(attempt: Attempt, url: string): Promise<Buffer> {
  const [, base64, data] = DATA_URL.exec(url) ?? [];
  if (data === undefined) return (await attempt.download(url)).bytes;
  if (base64 !== undefined) return Buffer.from(data, 'base64');
  throw finalFailure('invalid_request', 'file_url: a data URL of audio is in base64');
}

/** Returns the engine's own name if an alias is requested. */
function modelIn({ modelAliases, servedModel }: Attempt, { model }: { model?: unknown }): { model?: string } {
  const isAlias = typeof model === 'string' && modelAliases.has(model);
  return isAlias && servedModel !== undefined ? { model: servedModel } : {};
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const Named = z.looseObject({ model: z.string().nullish() });

/** Returns the model name to ask the engine for in a task's request: every task may name a model, and none has to. */
export function modelOf(attempt: Attempt): string {
  const parsed = parseValue(Named, attempt.payload);
  const asked = parsed.ok ? parsed.value.model : null;
  return attempt.modelFor(asked || 'default');
}

/**
 * Returns what a schema changed in a payload: the members that it set, replaced or removed. Objects and lists do not
 * count, since a schema only descends into them.
 */
export function changed(given: object, read: object): JsonEdits {
  const before = new Map<string, unknown>(Object.entries(given));
  const edits: [string, string | undefined][] = [];
  for (const [name, value] of Object.entries(read)) {
    const was = before.get(name) ?? null;
    if (value === was || (typeof value === 'object' && value !== null && was !== null)) continue;
    edits.push([name, JSON.stringify(value)]);
  }
  return Object.fromEntries(edits);
}

/** Writes a request made of fields as JSON; fields taken from the payload are written as they are there. */
export function asWritten(fields: Readonly<Record<string, unknown>>, payload: object): string {
  const own = new Map<string, unknown>(Object.entries(payload));
  const names = Object.keys(fields).filter((name) => own.has(name) && own.get(name) === fields[name]);
  const json = Buffer.from(writeJson(payload));
  return withMembers(writeJson(fields), jsonFields(json, names, Number.POSITIVE_INFINITY));
}
