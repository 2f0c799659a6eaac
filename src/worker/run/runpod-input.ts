import {
  type EngineRequest,
  inferenceRoutes,
  isObject,
  jsonOrText,
  keepJson,
  type RouteList,
  type RunpodInput,
  runpodStreams,
  withMembers,
  writeJson,
} from '../../protocol/index.ts';
import { finalFailure } from '../failure.ts';
import { asWritten } from './request-body.ts';
import { type Batching, batchingOf, RUNPOD_BATCHING } from './runpod-batching.ts';

type Params = Record<string, unknown>;

/**
 * Parameters of RunPod's table that vLLM's API no longer has: the values that mean the default, and what to do instead.
 */
const GONE: Record<string, { isDefault: (value: unknown, params: Params) => boolean; instead: string }> = {
  best_of: {
    isDefault: (value, { n }) => value === (n ?? 1),
    instead: 'ask for n answers and choose; with use_beam_search, n is the width of the beam',
  },
  early_stopping: {
    isDefault: (value) => value === false,
    instead: 'beam search always ends when it has n finished sequences',
  },
};

/** Parameters of vLLM's `SamplingParams` that no request to its server can have, and what to do instead. */
const NOT_IN_REQUESTS: Record<string, string> = {
  guided_decoding: 'use structured_outputs',
  logits_processors: 'the engine loads them when it starts (LOGITS_PROCESSORS)',
  extra_args: 'use vllm_xargs',
  detokenize: 'use return_token_ids',
  output_kind: 'stream is a field of the input',
};

/** Fields of a request that other fields of the input set, or that no caller may set. */
const RESERVED = [
  'messages',
  'prompt',
  'stream',
  'stream_options',
  'kv_transfer_params',
  'ec_transfer_params',
];

/**
 * The table's defaults, which the worker sends since the engine's own would come from the model's
 * generation_config.json. The default of `max_tokens` is 16 in the table (0.2) and 100 in the code of 2.x.
 */
const DEFAULTS = { temperature: 1, top_p: 1, top_k: -1, min_p: 0, repetition_penalty: 1 };
const MAX_TOKENS = { '0.2': 16, '2.x': 100 };

/**
 * Returns `sampling_params` as fields of a request to today's engine: those of the table, and any others that it knows.
 * @throws JobFailure that names a parameter which no request can carry
 */
function samplingFields(params: Params, route: 'chat' | 'completions'): Params {
  const fields: Params = {};
  for (const [name, value] of Object.entries(params)) {
    // In RunPod's table None means that the parameter is left out.
    if (value === null) continue;
    const problem = problemOf(name, value, params);
    if (problem !== null) throw finalFailure('invalid_request', `input.sampling_params.${name}: ${problem}`);
    if (name in GONE) continue;
    if (name === 'logprobs' && route === 'chat' && typeof value === 'number') {
      Object.assign(fields, { logprobs: true, top_logprobs: value });
    } else fields[name] = value;
  }
  return fields;
}

/** Returns the parameters with which a generation of RunPod's worker runs a job that names none. */
function samplingDefaults(generation: '0.2' | '2.x'): Params {
  return { ...DEFAULTS, max_tokens: MAX_TOKENS[generation] };
}

function problemOf(name: string, value: unknown, params: Params): string | null {
  const gone = GONE[name];
  if (gone !== undefined) {
    return gone.isDefault(value, params) ? null : `vLLM has no such parameter any more; ${gone.instead}`;
  }
  const instead = NOT_IN_REQUESTS[name];
  if (instead !== undefined) return `cannot be sent to the engine; ${instead}`;
  return RESERVED.includes(name) ? 'is no sampling parameter' : null;
}

/** The settings of answers that the variables of RunPod's worker make. */
export interface RunpodSettings {
  /** The batches of streams: DEFAULT_BATCH_SIZE, DEFAULT_MIN_BATCH_SIZE and DEFAULT_BATCH_SIZE_GROWTH_FACTOR. */
  batching: Batching;
  /**
   * RUNPOD_OUTPUT: `engine` gives the engine's own bodies and events, as RunPod's worker has since 2.24; `tokens` gives
   * the forms of 0.2 and of 2.x before that.
   */
  form: 'engine' | 'tokens';
  /** RAW_OPENAI_OUTPUT: whether streams of `openai_route` are given as text of events, else as lists of their data. */
  isRawOpenAI: boolean;
  /** ALLOW_OPENAI_FORMAT: whether jobs may ask for `use_openai_format`. */
  allowsOpenAIFormat: boolean;
  /** INFERENCE_ROUTES: the routes that any job may ask the engine for. */
  routes: RouteList;
}

export const RUNPOD_DEFAULTS: RunpodSettings = {
  form: 'tokens',
  batching: RUNPOD_BATCHING,
  isRawOpenAI: true,
  allowsOpenAIFormat: true,
  routes: inferenceRoutes(),
};

/**
 * The form of a job's outputs.
 *
 * - `tokens` (`prompt` or `messages`): `{choices: [{tokens: [text, …]}], usage: {input, output}}`
 * - `openai_batches` (the same with `use_openai_format`): the engine's body; streamed, its chunks, where the chunks of
 *   a batch become one whose `delta.content` is a list
 * - `events` (`openai_route`): the engine's body; streamed, the text of its events, several together
 * - `chunks` (the same with RAW_OPENAI_OUTPUT=0): the engine's body; streamed, lists of the data of its events
 * - `passed` (`route`, and everything with RUNPOD_OUTPUT=engine): the engine's body; streamed, the text of its events
 *   as they come
 */
type RunpodForm = 'tokens' | 'openai_batches' | 'events' | 'chunks' | 'passed';

/** A job's request to the engine, and the form of its answer. */
export interface RunpodCall {
  request: EngineRequest;
  form: RunpodForm;
  streams: boolean;
  /** The number of answers requested with `n`. */
  choices: number;
  batching: Batching;
}

type Fields = Record<string, unknown>;

const CHAT = '/v1/chat/completions';
const COMPLETIONS = '/v1/completions';
/** Fields that a caller must not set (docs/security.md). */
const NOT_FOR_CALLERS = ['kv_transfer_params', 'ec_transfer_params'];

/**
 * Reads a job's input in any of RunPod's forms, in the same order as its worker: `openai_input` or `openai_route`, then
 * `route`, then `messages` or `prompt`.
 * @param servedModel the model for requests that name none; undefined: the engine does not report it
 * @throws JobFailure `invalid_request` that names the field
 */
export function readRunpodInput(
  input: RunpodInput,
  settings: RunpodSettings,
  servedModel: string | undefined,
): RunpodCall {
  const { openai_route, openai_input, route, messages, prompt } = input;
  if (openai_input && input.body)
    throw finalFailure('invalid_request', 'input: expected openai_input or body, not both');
  if (openai_input || openai_route) {
    const path = textOf(openai_route ?? CHAT, 'openai_route');
    const form = formOfRoute(path, settings);
    // Clients give an empty body to a route that takes no body, such as /v1/models.
    const isQuestion = settings.routes.has('GET', path) && isObject(openai_input) && isEmpty(openai_input);
    const body = isQuestion ? undefined : openai_input;
    return call(input, 'openai_route', { path, body }, form, settings, servedModel);
  }
  if (route) {
    const asked = { path: textOf(route, 'route'), body: input.body, method: input.method };
    return call(input, 'route', asked, 'passed', settings, servedModel);
  }
  if ((messages ?? prompt ?? null) === null) {
    throw finalFailure(
      'invalid_request',
      'input: expected openai_route with openai_input, route with body, or prompt or messages',
    );
  }
  const read = settings.form === 'engine' ? passedShorthand : shorthand;
  return read(input, settings, servedModel);
}

function isEmpty(fields: Fields): boolean {
  return Object.keys(fields).length === 0;
}

function formOfRoute(path: string, { form, isRawOpenAI }: RunpodSettings): RunpodForm {
  if (form === 'engine') return 'passed';
  return isRawOpenAI || !isCompletion(path) ? 'events' : 'chunks';
}

/** Reads `prompt` or `messages`, with the engine's own defaults. */
function passedShorthand(
  input: RunpodInput,
  settings: RunpodSettings,
  servedModel: string | undefined,
): RunpodCall {
  const given = textIn(input);
  const isChat = Array.isArray(given);
  const sampling = samplingIn(input);
  const body = {
    ...samplingFields(sampling, isChat ? 'chat' : 'completions'),
    ...(isChat ? { messages: given } : { prompt: given }),
    stream: input.stream === true,
  };
  keepJson(body, asWritten(body, sampling));
  const asked = { path: isChat ? CHAT : COMPLETIONS, body };
  return call(input, 'prompt', asked, 'passed', settings, servedModel);
}

/** Returns the prompt or the messages. @throws JobFailure */
function textIn({ messages, prompt }: RunpodInput): string | unknown[] {
  const given = messages ?? prompt;
  if (typeof given === 'string' || Array.isArray(given)) return given;
  const name = messages === undefined ? 'prompt' : 'messages';
  throw finalFailure('invalid_request', `input.${name}: expected a text or a list of messages`);
}

/** Returns the sampling parameters. @throws JobFailure */
function samplingIn({ sampling_params }: RunpodInput): Fields {
  const params = sampling_params ?? {};
  if (isObject(params)) return params;
  throw finalFailure('invalid_request', 'input.sampling_params: expected an object');
}

/** Reads `prompt` or `messages` with `sampling_params`. */
function shorthand(
  input: RunpodInput,
  settings: RunpodSettings,
  servedModel: string | undefined,
): RunpodCall {
  const { use_openai_format, apply_chat_template, batch_size } = input;
  const given = textIn(input);
  if (use_openai_format && !settings.allowsOpenAIFormat) {
    const message = 'input.use_openai_format: this worker does not allow it (ALLOW_OPENAI_FORMAT)';
    throw finalFailure('invalid_request', message);
  }
  const isChat = Array.isArray(given) || Boolean(apply_chat_template) || Boolean(use_openai_format);
  const text = { role: 'user', content: given };
  const sampling = samplingIn(input);
  const body = {
    ...(use_openai_format ? {} : samplingDefaults(batch_size ? '0.2' : '2.x')),
    ...samplingFields(sampling, isChat ? 'chat' : 'completions'),
    ...(isChat ? { messages: Array.isArray(given) ? given : [text] } : { prompt: given }),
    ...(input.stream
      ? { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } }
      : { stream: false }),
  };
  keepJson(body, asWritten(body, sampling));
  const asked = { path: isChat ? CHAT : COMPLETIONS, body };
  const form = use_openai_format ? 'openai_batches' : 'tokens';
  return call(input, 'prompt', asked, form, settings, servedModel);
}

function call(
  input: RunpodInput,
  field: string,
  asked: { path: string; body?: unknown; method?: unknown },
  form: RunpodForm,
  settings: RunpodSettings,
  servedModel: string | undefined,
): RunpodCall {
  const body = asked.body ?? undefined;
  const method = String(asked.method ?? (body === undefined ? 'GET' : 'POST')).toUpperCase();
  if (!settings.routes.has(method, asked.path)) {
    throw finalFailure(
      'invalid_request',
      `input.${field}: ${method} ${asked.path} is no inference route; this worker asks its engine for nothing else`,
    );
  }
  const foreign = NOT_FOR_CALLERS.find((name) => isObject(body) && (body[name] ?? null) !== null);
  if (foreign !== undefined) {
    throw finalFailure('invalid_request', `${foreign}: is set by the engines themselves, never by a caller`);
  }
  return {
    request: { method: method as EngineRequest['method'], path: asked.path, ...bodyOf(body, servedModel) },
    form,
    streams: runpodStreams(input),
    choices:
      isObject(body) && typeof body.n === 'number' && Number.isInteger(body.n) ? Math.max(1, body.n) : 1,
    batching: ownBatching(input, settings.batching),
  };
}

/**
 * Returns the batching from a job's own fields, else from the worker's settings; `batch_size` has its meaning of 0.2,
 * where batches did not grow.
 */
function ownBatching(input: RunpodInput, otherwise: Batching): Batching {
  const fields = {
    batch_size: numberIn(input, 'batch_size'),
    max_batch_size: numberIn(input, 'max_batch_size'),
    min_batch_size: numberIn(input, 'min_batch_size'),
    batch_size_growth_factor: numberIn(input, 'batch_size_growth_factor'),
  };
  return batchingOf(fields, fields.batch_size ? { ...otherwise, growthFactor: 1 } : otherwise);
}

/** Reads a number, which may be a text, as in RunPod's worker. */
function numberIn(input: RunpodInput, name: string): number | null {
  const value = input[name] ?? null;
  if (value === null) return null;
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof number === 'number' && number >= 0 && number < Number.POSITIVE_INFINITY) return number;
  const message = `input.${name}: expected a number, 0 or more, got ${JSON.stringify(value)}`;
  throw finalFailure('invalid_request', message);
}

/** Returns the body as JSON, with the served model if it names none: not every engine fills the model in. */
function bodyOf(
  body: unknown,
  servedModel: string | undefined,
): Pick<EngineRequest, 'body' | 'content_type'> {
  if (body === undefined) return {};
  const text = typeof body === 'string' ? body : writeJson(body);
  const fields = typeof body === 'string' ? jsonOrText(body) : body;
  const isNamed = !isObject(fields) || Boolean(fields.model) || servedModel === undefined;
  const named = isNamed ? text : withMembers(text, { model: JSON.stringify(servedModel) });
  return { body: named, content_type: 'application/json' };
}

function isCompletion(path: string): boolean {
  return path === CHAT || path === COMPLETIONS;
}

function textOf(value: unknown, name: string): string {
  if (typeof value === 'string') return value;
  throw finalFailure('invalid_request', `input.${name}: expected a text, such as "${CHAT}"`);
}
