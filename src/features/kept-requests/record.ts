import { fieldsOf, jsonOrText, plainPath, routeLike } from '../../protocol/index.ts';
import { inputMessages, outputMessages, systemInstructions } from './messages.ts';
import { wholeAnswer } from './stream.ts';
import type { KeptRecord } from './types.ts';

/** The facts about a request when its answer is over. */
export interface Seen {
  queueId: string;
  jobId: string;
  requestId: string;
  /** The id that the queue gave the response; null: it has the engine's, if any. */
  responseId: string | null;
  tenant: string | null;
  tokenName: string | null;
  /** `live`: its caller waited; `job`: it was stored. */
  road: 'live' | 'job';
  /** The path on the engine; null: it is not known. */
  path: string | null;
  model: string | null;
  /** The last worker that had it; null: none had, or it is not known. */
  workerId: string | null;
  /** Epoch ms. */
  startedAt: number;
  endedAt: number;
  input: Content;
  output: Content;
  /** The status of the answer; null: no engine gave one. */
  status: number | null;
  /** How it ended where no engine's answer says so; null: the answer does. */
  failed: Failed | null;
  /** Whether the answer came to its end; false: its caller hung up, or it broke off. */
  isWhole: boolean;
}

/** An end without an answer. */
export interface Failed {
  /** `refused`: by a hook; the others are the states of a stored job. */
  outcome: 'refused' | 'failed' | 'cancelled' | 'expired';
  /** The code of the error. */
  type: string;
}

/** A body, as text or as bytes that are none. */
export interface Content {
  /** The content type; null: JSON. */
  type: string | null;
  bytes: Uint8Array;
  /** Whether only the beginning is there. */
  isCut: boolean;
}

type Line = Record<string, unknown>;

/** Fields of a request that the conventions have a name for, beside the messages. */
const PARAMETERS = {
  max_tokens: 'gen_ai.request.max_tokens',
  max_completion_tokens: 'gen_ai.request.max_tokens',
  max_output_tokens: 'gen_ai.request.max_tokens',
  temperature: 'gen_ai.request.temperature',
  top_p: 'gen_ai.request.top_p',
  top_k: 'gen_ai.request.top_k',
  seed: 'gen_ai.request.seed',
  frequency_penalty: 'gen_ai.request.frequency_penalty',
  presence_penalty: 'gen_ai.request.presence_penalty',
  stream: 'gen_ai.request.stream',
} as const;

/**
 * Returns the record of a request: an event `gen_ai.client.inference.operation.details` of OpenTelemetry's conventions
 * (open-telemetry/semantic-conventions-genai, in development), its attributes as the members of one object, beside our
 * own in the namespace `worker_vllm`. A body that is in no form of messages stands there as it is.
 */
export function recordOf(seen: Seen): KeptRecord {
  const { jobId, requestId, tenant, tokenName, startedAt, endedAt, status, isWhole } = seen;
  const answer = answerOf(seen.output);
  const { id: engineId, error } = fieldsOf(answer);
  const responseId = seen.responseId ?? (typeof engineId === 'string' ? engineId : null);
  const told =
    Number(status) >= 400 ? `${status}` : error != null ? codeOf(error) : isWhole ? null : 'broken_off';
  const failure = seen.failed?.type ?? told;
  const outcome = failure === null ? 'succeeded' : isWhole ? 'failed' : 'broken_off';
  const line: Line = {
    time: iso(endedAt),
    'event.name': 'gen_ai.client.inference.operation.details',
    'gen_ai.operation.name': operationOf(seen.path),
    'gen_ai.provider.name': 'worker_vllm',
    ...requestOf(seen),
    ...(responseId !== null && { 'gen_ai.response.id': responseId }),
    ...responseOf(answer, seen.output, failure !== null),
    ...(failure !== null && { 'error.type': failure }),
    ...(seen.path !== null && { 'url.path': plainPath(seen.path) }),
    ...(status !== null && { 'http.response.status_code': status }),
    'worker_vllm.queue.id': seen.queueId,
    'worker_vllm.job.id': jobId,
    'worker_vllm.request.id': requestId,
    'worker_vllm.tenant': tenant,
    'worker_vllm.token': tokenName,
    'worker_vllm.worker.id': seen.workerId,
    'worker_vllm.road': seen.road,
    'worker_vllm.started_at': iso(startedAt),
    'worker_vllm.ended_at': iso(endedAt),
    'worker_vllm.outcome': seen.failed?.outcome ?? outcome,
  };
  // A submission that was refused may bear the id of a job that there is, whose record stays.
  const isNoJob = seen.failed?.outcome === 'refused' && seen.road === 'job';
  return {
    job_id: isNoJob ? `refused-${crypto.randomUUID()}` : jobId,
    request_id: requestId,
    response_id: responseId,
    tenant,
    token_name: tokenName,
    started_at: startedAt,
    ended_at: endedAt,
    line: JSON.stringify(line),
  };
}

/** Returns the code of an error that came with the status of a success, as streams have it; or else its type. */
function codeOf(error: unknown): string {
  const { code, type } = fieldsOf(error);
  const said = code ?? type;
  return (typeof said === 'string' && said !== '') || typeof said === 'number' ? `${said}` : 'error';
}

const iso = (at: number) => new Date(at).toISOString();

function operationOf(path: string | null): string {
  if (path === null) return 'request';
  const known = routeLike(path)?.operation ?? null;
  return known ?? plainPath(path).split('/').at(-1) ?? 'request';
}

/** Returns the attributes of the request. */
function requestOf({ input, model }: Seen): Line {
  const text = textOf(input);
  const fields = fieldsOf(text === null ? null : jsonOrText(text));
  const messages = inputMessages(fields);
  const system = systemInstructions(fields);
  const line: Line = {};
  if (model !== null) line['gen_ai.request.model'] = model;
  for (const [field, name] of Object.entries(PARAMETERS)) {
    const value = fields[field];
    if (typeof value === 'number' || typeof value === 'boolean') line[name] = value;
  }
  if (typeof fields.n === 'number' && fields.n !== 1) line['gen_ai.request.choice.count'] = fields.n;
  const stops = typeof fields.stop === 'string' ? [fields.stop] : (fields.stop ?? fields.stop_sequences);
  if (Array.isArray(stops)) line['gen_ai.request.stop_sequences'] = stops;
  if (Array.isArray(fields.tools)) line['gen_ai.tool.definitions'] = fields.tools;
  if (system !== null) line['gen_ai.system_instructions'] = system;
  if (messages === null) return { ...line, ...bodyOf('worker_vllm.request', input, text) };
  return { ...line, 'gen_ai.input.messages': messages };
}

/** Returns the attributes of the response. */
function responseOf(answer: unknown, output: Content, isError: boolean): Line {
  const { model, usage } = fieldsOf(answer);
  const messages = isError ? null : outputMessages(answer);
  const told = fieldsOf(usage);
  const details = fieldsOf(told.prompt_tokens_details ?? told.input_tokens_details);
  const spent = fieldsOf(told.completion_tokens_details ?? told.output_tokens_details);
  const counts = {
    'gen_ai.usage.input_tokens': told.prompt_tokens ?? told.input_tokens,
    'gen_ai.usage.output_tokens': told.completion_tokens ?? told.output_tokens,
    'gen_ai.usage.cache_read.input_tokens': details.cached_tokens ?? told.cache_read_input_tokens,
    'gen_ai.usage.reasoning.output_tokens': spent.reasoning_tokens,
  };
  const line: Line = {};
  if (typeof model === 'string') line['gen_ai.response.model'] = model;
  for (const [name, count] of Object.entries(counts)) if (typeof count === 'number') line[name] = count;
  if (messages === null) return { ...line, ...bodyOf('worker_vllm.response', output, textOf(output)) };
  line['gen_ai.response.finish_reasons'] = messages.map(({ finish_reason }) => finish_reason);
  return {
    ...line,
    'gen_ai.output.messages': messages,
    ...(output.isCut && { 'worker_vllm.response.cut': true }),
  };
}

/** Returns the answer that a body holds: JSON, or what the events of a stream come to; null: it is neither. */
function answerOf(output: Content): unknown {
  const text = textOf(output);
  if (text === null) return null;
  if (output.type?.startsWith('text/event-stream')) return wholeAnswer(text);
  const answer = jsonOrText(text);
  return typeof answer === 'string' ? null : answer;
}

/** Returns a body as it is, where it is in no form of messages: JSON, a text, or base64 of other bytes. */
function bodyOf(name: string, { type, bytes, isCut }: Content, text: string | null): Line {
  const cut = isCut && { [`${name}.cut`]: true };
  if (bytes.byteLength === 0) return {};
  if (text !== null) return { [`${name}.body`]: jsonOrText(text), ...cut };
  return { [`${name}.body_base64`]: base64Of(bytes), [`${name}.content_type`]: type, ...cut };
}

function textOf({ type, bytes, isCut }: Content): string | null {
  // A caller may name a type that says little, as curl does for JSON; the gateway reads JSON all the same.
  if (type !== null && /^(audio|image|video|multipart)\/|octet-stream/.test(type)) return null;
  try {
    // A text that is cut off may end within a character.
    return new TextDecoder('utf-8', { fatal: !isCut, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

function base64Of(bytes: Uint8Array): string {
  let text = '';
  for (let from = 0; from < bytes.byteLength; from += 0x8000)
    text += String.fromCharCode(...bytes.subarray(from, from + 0x8000));
  return btoa(text);
}
