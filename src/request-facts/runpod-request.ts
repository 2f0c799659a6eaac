import {
  beginsObject,
  CHAT_PATH,
  COMPLETIONS_PATH,
  jsonFields,
  parseJsonBytes,
  withMembers,
} from '../protocol/index.ts';
import { RequestFault, readingJson } from './fault.ts';
import { encoded, isNull, type JobRequest, NO_BODY, textIn } from './job-request.ts';

const [QUOTE, OPEN_BRACKET, OPEN_BRACE] = [0x22, 0x5b, 0x7b];
const LISTS_AND_TEXTS = [QUOTE, OPEN_BRACKET, OPEN_BRACE];

const INPUT = [
  'openai_input',
  'openai_route',
  'route',
  'body',
  'messages',
  'prompt',
  'sampling_params',
  'apply_chat_template',
  'use_openai_format',
  'priority',
] as const;
type Input = Partial<Record<(typeof INPUT)[number], Uint8Array>>;

/**
 * Returns the request that an input of RunPod's makes, in the order in which RunPod's worker reads it: `openai_input`
 * or `openai_route`, then `route`, then `messages` or `prompt`. A body may be JSON, or a text of JSON.
 * @param payload JSON of `{input, model?}`
 * @throws RequestFault
 */
export function runpodRequest(payload: Uint8Array): JobRequest {
  const { input, model } = readingJson(() => jsonFields(payload, ['input', 'model']));
  const fields: Input = beginsObject(input) ? readingJson(() => jsonFields(input, INPUT)) : {};
  const { openai_input, openai_route, route, body } = fields;
  const isOpenAI = isTrue(openai_input) || isTrue(openai_route);
  if (isTrue(openai_input) && isTrue(body)) {
    throw new RequestFault('two_bodies', 'input: expected openai_input or body, not both.');
  }
  const common = {
    contentType: null,
    otherwiseModel: textIn(model) || null,
    otherwiseTokens: null,
    // No worker reads this priority, so its sender expects what does not happen: it is reported to be judged.
    priorities: fields.priority ? [readingJson(() => parseJsonBytes(fields.priority!))] : [],
  };
  if (isOpenAI) {
    const path = openai_route === undefined ? CHAT_PATH : textIn(openai_route);
    return { ...common, path, ...bodyOf(openai_input), place: ['input', 'openai_input'] };
  }
  if (isTrue(route)) return { ...common, path: textIn(route), ...bodyOf(body), place: ['input', 'body'] };
  return { ...common, isText: false, ...shorthand(fields), place: ['input', 'sampling_params'] };
}

function bodyOf(value: Uint8Array | undefined): Pick<JobRequest, 'body' | 'isText'> {
  if (!isGiven(value)) return { body: NO_BODY, isText: false };
  const text = textIn(value);
  return text === null ? { body: value, isText: false } : { body: encoded(text), isText: true };
}

/**
 * Makes the request of `messages` or `prompt`. The sampling parameters are fields of the body; parameters beside them
 * in the input are not.
 */
function shorthand(fields: Input): Pick<JobRequest, 'path' | 'body'> {
  const { messages, prompt, sampling_params, apply_chat_template, use_openai_format } = fields;
  const given = isGiven(messages) ? messages : isGiven(prompt) ? prompt : undefined;
  if (given === undefined) return { path: null, body: NO_BODY };
  const isChat = given[0] === OPEN_BRACKET || isTrue(apply_chat_template) || isTrue(use_openai_format);
  const sampling = beginsObject(sampling_params) ? sampling_params : encoded('{}');
  return {
    path: isChat ? CHAT_PATH : COMPLETIONS_PATH,
    body: readingJson(() => withMembers(sampling, { [isChat ? 'messages' : 'prompt']: given })),
  };
}

function isGiven(json: Uint8Array | undefined): json is Uint8Array {
  return json !== undefined && !isNull(json);
}

/**
 * Says whether a value counts as true in the worker's JavaScript: objects and lists do, even empty ones, and 0 does
 * not, however long it is written.
 */
function isTrue(json: Uint8Array | undefined): boolean {
  if (json === undefined) return false;
  const [first = 0] = json;
  return LISTS_AND_TEXTS.includes(first)
    ? json.byteLength > 2 || first !== QUOTE
    : Boolean(readingJson(() => parseJsonBytes(json)));
}
