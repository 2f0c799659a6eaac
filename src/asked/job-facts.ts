import {
  BASE_TASKS,
  bytesOfBase64,
  CHAT_MAX_TOKENS,
  checkUtf8,
  jsonFields,
  parseJsonBytes,
  withMemberAt,
  withMembers,
} from '../protocol/index.ts';
import { type Ask, CHAT_PATH, encoded, isNull, textIn } from './ask.ts';
import { type BodyFacts, bodyFacts } from './body-facts.ts';
import { AskedFault, readingJson } from './fault.ts';
import { type Lengths, lengthsOf } from './lengths.ts';
import { runpodAsk } from './runpod-ask.ts';

/** What was read of a job. */
export interface JobFacts {
  ask: Ask;
  body: BodyFacts;
  /** Null: the engine is asked for whatever it serves. */
  model: string | null;
  lengths: Lengths;
}

/** Routes of the base protocol's tasks, whose bodies are their payloads. */
const TASK_PATHS: Readonly<Record<string, string>> = {
  [BASE_TASKS.chat]: CHAT_PATH,
  [BASE_TASKS.embeddings]: '/v1/embeddings',
  [BASE_TASKS.speech]: '/v1/audio/speech',
  [BASE_TASKS.transcription]: '/v1/audio/transcriptions',
};
const CHAT_TYPES = ['chat_completion', 'llm_inference'];

/**
 * @param payload JSON of an object
 * @throws AskedFault for a job that is sent to no engine
 */
export function jobFacts(jobType: string, payload: Uint8Array): JobFacts {
  const ask = askOf(jobType, payload);
  const body = factsOf(ask);
  const { otherwiseModel } = ask;
  if (
    jobType === 'engine_request' &&
    body.model !== null &&
    otherwiseModel !== null &&
    otherwiseModel !== body.model
  ) {
    throw new AskedFault(
      'invalid_model',
      `payload.model: names ${JSON.stringify(otherwiseModel)}, and the body ${JSON.stringify(body.model)}, which is what the engine reads: leave payload.model out.`,
    );
  }
  const lengths = readingJson(() => lengthsOf(ask.path ?? '', body.jsonBytes, body.fields));
  return {
    ask,
    body,
    model: body.model ?? otherwiseModel,
    lengths: isUnbounded(body) ? { ...lengths, most: ask.otherwiseTokens } : lengths,
  };
}

/** No bound is named, not even one that cannot be read. */
function isUnbounded({ fields: { max_tokens, max_completion_tokens } }: BodyFacts): boolean {
  return [max_tokens, max_completion_tokens].every((json) => json === undefined || isNull(json));
}

function askOf(jobType: string, payload: Uint8Array): Ask {
  if (jobType === 'engine_request') return engineAsk(payload);
  if (jobType === 'runpod') return runpodAsk(payload);
  return taskAsk(jobType, payload);
}

function engineAsk(payload: Uint8Array): Ask {
  const fields = readingJson(() =>
    jsonFields(payload, ['path', 'body', 'body_base64', 'content_type', 'headers', 'model', 'continues']),
  );
  const [path, text, base64] = [textIn(fields.path), textIn(fields.body), textIn(fields.body_base64)];
  if (text !== null && base64 !== null)
    throw new AskedFault('two_bodies', 'payload: expected body or body_base64, not both.');
  if (fields.continues !== undefined)
    throw new AskedFault('continues_refused', 'payload.continues: is said by queues alone: leave it out.');
  const headers = Object(
    fields.headers === undefined ? null : readingJson(() => parseJsonBytes(fields.headers!)),
  );
  return {
    path,
    body: base64 === null ? encoded(text ?? '') : decodedBase64(base64),
    contentType: textIn(fields.content_type),
    place: [base64 === null ? 'body' : 'body_base64'],
    isText: true,
    otherwiseModel: textIn(fields.model) || null,
    otherwiseTokens: null,
    // One name in two cases is two of them; the worker sends the last.
    priorities: Object.entries(headers).flatMap(([name, value]) =>
      name.toLowerCase() === 'x-vllm-priority' ? [value] : [],
    ),
  };
}

function decodedBase64(base64: string): Uint8Array {
  try {
    return bytesOfBase64(base64);
  } catch {
    throw new AskedFault('invalid_base64', 'payload.body_base64: expected base64.');
  }
}

/** The payload is the body, beside `task`. */
function taskAsk(jobType: string, payload: Uint8Array): Ask {
  const { task: given } = readingJson(() => jsonFields(payload, ['task']));
  const task = textIn(given) || (CHAT_TYPES.includes(jobType) ? BASE_TASKS.chat : jobType);
  const isChat = task === BASE_TASKS.chat;
  return {
    path: TASK_PATHS[task] ?? null,
    body: payload,
    contentType: null,
    place: [],
    isText: false,
    otherwiseModel: null,
    otherwiseTokens: isChat ? CHAT_MAX_TOKENS : null,
    priorities: [],
  };
}

function factsOf({ place, body, contentType }: Ask): BodyFacts {
  try {
    const facts = bodyFacts(body, contentType);
    // A job is text from end to end, and an engine that is sent other bytes may read any character in their place.
    if (facts.kind === 'json') readingJson(() => checkUtf8(body));
    return facts;
  } catch (error) {
    if (!(error instanceof AskedFault) || place.length === 0) throw error;
    throw new AskedFault(error.code, `payload.${place.join('.')}: ${error.message}`);
  }
}

/**
 * The payload with another name in place of the model that the job asks for.
 * @param payload JSON of an object
 */
export function withModel(payload: string, { ask, body }: JobFacts, model: string): string {
  const name = JSON.stringify(model);
  const named = ask.otherwiseModel === null ? payload : withMembers(payload, { model: name });
  if (body.model === null || body.kind !== 'json') return named;
  const [first, ...rest] = ask.place;
  if (first === undefined) return withMembers(payload, { model: name });
  if (ask.isText) {
    const text = JSON.stringify(withMembers(new TextDecoder().decode(ask.body), { model: name }));
    if (first === 'body_base64') return withMembers(named, { body: text, body_base64: undefined });
    return withMemberAt(named, [first, ...rest], text);
  }
  return withMemberAt(named, [first, ...rest, 'model'], name);
}
