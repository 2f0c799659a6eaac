import { type EngineRequest, jsonOrText } from '../../protocol/index.ts';
import { finalFailure } from '../failure.ts';
import type { Attempt } from './attempt.ts';

/** Matches routes that take a file, as a form. */
const AUDIO_ROUTE = /^\/v1\/audio\/(transcriptions|translations)$/;

const DATA_URL = /^data:[^,]*?(;base64)?,(.*)$/s;

export interface Form {
  body: Uint8Array;
  contentType: string;
}

/** Tells whether a request may be one for `audioForm`. */
export function namesAudio({ path, body }: EngineRequest): boolean {
  return AUDIO_ROUTE.test(path) && typeof body === 'string';
}

/**
 * Turns a JSON request for the text of audio into the form that the engine's route takes. The request says where the
 * audio lies, as lines of `vllm run-batch` do (`file_url`: an address, or the audio itself as a data URL).
 * @returns null: it is no such request
 * @throws JobFailure `invalid_request`, or `payload_unreachable` where the audio cannot be fetched
 */
export async function audioForm(attempt: Attempt, request: EngineRequest): Promise<Form | null> {
  const asked = jsonOrText(String(request.body));
  // A long text that is no JSON, destructured as an object, would block the worker for seconds.
  if (typeof asked !== 'object' || asked === null) return null;
  const { file_url: url, file, ...fields } = asked as Record<string, unknown>;
  if (typeof url !== 'string') return null;
  if (file !== undefined) {
    throw finalFailure('invalid_request', 'file: a request in JSON has none; file_url says where it lies');
  }
  return await formOf(await audioAt(attempt, url), { ...fields, ...modelIn(attempt, fields) });
}

/** Makes the form that the engine's audio routes take. @param fields those that are undefined or null are left out */
export async function formOf(audio: Buffer, fields: Record<string, unknown>): Promise<Form> {
  const form = new FormData();
  // Engines that do not look at the bytes tell the format by the name.
  form.set('file', new Blob([audio]), 'audio.wav');
  for (const [name, value] of Object.entries(fields)) {
    for (const one of [value].flat()) if (one != null) form.append(name, textOf(one));
  }
  const encoded = new Response(form);
  return {
    body: new Uint8Array(await encoded.arrayBuffer()),
    contentType: encoded.headers.get('content-type')!,
  };
}

async function audioAt(attempt: Attempt, url: string): Promise<Buffer> {
  const [, base64, data] = DATA_URL.exec(url) ?? [];
  if (data === undefined) return (await attempt.download(url)).bytes;
  if (base64 !== undefined) return Buffer.from(data, 'base64');
  throw finalFailure('invalid_request', 'file_url: a data URL of audio is in base64');
}

/** Returns the engine's own name, where an alias is asked for. */
function modelIn({ modelAliases, servedModel }: Attempt, { model }: { model?: unknown }): { model?: string } {
  const isAlias = typeof model === 'string' && modelAliases.has(model);
  return isAlias && servedModel !== undefined ? { model: servedModel } : {};
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
