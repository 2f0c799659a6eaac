import { badRequest, notFound } from './errors.ts';
import { type Body, chatIds, FieldParser, givenIds, type Prompt, readPrompts } from './fields.ts';
import { assistantTurns } from './script.ts';
import { seedFrom } from './text.ts';

/** A request for text, read from the body of a chat or a text completion. */
export interface GenerationRequest {
  /** The prompts; text completions may bring several. */
  prompts: Prompt[];
  /** The assistant's turns in the conversation so far. */
  turns: number;
  /** Whether the prompt's text comes before the answer. */
  echo: boolean;
  n: number;
  maxTokens: number | null;
  minTokens: number;
  ignoreEos: boolean;
  stop: string[];
  includeStop: boolean;
  stream: boolean;
  includeUsage: boolean;
  continuousUsage: boolean;
  /** The body's own `request_id`; the header takes precedence. */
  requestId: string | null;
  /** Whether the answer has the ids of prompt and tokens (`return_token_ids`). */
  returnTokenIds: boolean;
  /** Stands for what the tokens depend on beside earlier ids, so that no answer can be continued; null: nothing. */
  salt: number | null;
}

/** The number of tokens that text completions generate if the request names none, as OpenAI's do. */
const DEFAULT_COMPLETION_TOKENS = 16;

/**
 * Reads the body of `/v1/chat/completions`. Unknown fields are ignored, as vLLM ignores them.
 * @param parsesTools whether the model's calls of tools are found
 * @throws ApiError as vLLM answers it
 */
export function readChat(body: Body, servedNames: readonly string[], parsesTools = false): GenerationRequest {
  const fields = new FieldParser(body);
  if (body.messages === undefined) fields.missing('messages');
  else if (!Array.isArray(body.messages)) {
    fields.wrong('messages', 'list_type', 'Input should be a valid list');
  }
  const messages = Array.isArray(body.messages) ? (body.messages as unknown[]) : [];
  messages.forEach((message, at) => {
    if (typeof message !== 'object' || message === null || typeof (message as Body).role !== 'string') {
      fields.missing(`messages.${at}.role`, message);
    }
  });
  const request = readShared(fields, servedNames, ['max_completion_tokens', 'max_tokens']);
  if (!parsesTools && Array.isArray(body.tools) && body.tools.length > 0 && body.tool_choice !== 'none') {
    throw badRequest(
      '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    );
  }
  if (messages.length === 0) {
    throw badRequest('Cannot apply chat template to an empty conversation. Provide at least one message.');
  }
  const texts = messages.map((message) => contentText((message as Body).content, servedNames[0]!));
  const text = texts.join('\n');
  const ids = givenIds(body) ?? chatIds(messages, texts, servedNames[0]!);
  return { ...request, echo: false, prompts: [{ text, ids }], turns: assistantTurns(messages) };
}

/**
 * Reads the body of `/v1/chat/completions/batch`: a list of conversations, each with an answer of its own.
 * @throws ApiError as vLLM answers it
 */
export function readBatch(body: Body, servedNames: readonly string[]): GenerationRequest {
  const conversations = Array.isArray(body.messages) ? body.messages : [[]];
  const read = conversations.map((messages) => readChat({ ...body, messages }, servedNames));
  return { ...read[0]!, prompts: read.flatMap(({ prompts }) => prompts) };
}

/**
 * Reads the body of `/v1/completions`.
 * @throws ApiError as vLLM answers it
 */
export function readCompletion(body: Body, servedNames: readonly string[]): GenerationRequest {
  const fields = new FieldParser(body);
  const request = readShared(fields, servedNames, ['max_tokens']);
  const prompts = readPrompts(body.prompt, servedNames[0]!);
  if (prompts.length === 0) {
    throw badRequest('Either prompt or prompt_embeds must be provided and non-empty.', 'prompt');
  }
  const maxTokens = request.maxTokens ?? DEFAULT_COMPLETION_TOKENS;
  return { ...request, maxTokens, echo: body.echo === true, prompts, turns: 0 };
}

/** Checks a request against the model's length. Returns the number of tokens that fit. */
export function fitToModel(request: GenerationRequest, maxModelLen: number): number {
  const { maxTokens } = request;
  if (maxTokens !== null && maxTokens < 1) {
    throw badRequest(`max_tokens must be at least 1, got ${maxTokens}.`, 'max_tokens', maxTokens);
  }
  if (maxTokens !== null && maxTokens > maxModelLen) {
    throw badRequest(
      `max_tokens=${maxTokens} cannot be greater than max_model_len=${maxModelLen}. ` +
        'Please request fewer output tokens.',
      'max_tokens',
      maxTokens,
    );
  }
  const longest = Math.max(...request.prompts.map(({ ids }) => ids.length));
  if (longest >= maxModelLen) {
    throw badRequest(
      `This model's maximum context length is ${maxModelLen} tokens. However, your prompt contains ` +
        `${longest} input tokens, which exceeds this limit even without any output tokens. ` +
        'Please reduce the length of the input prompt.',
      'input_tokens',
      longest,
    );
  }
  return Math.min(maxTokens ?? maxModelLen, maxModelLen - longest);
}

function readShared(
  fields: FieldParser,
  servedNames: readonly string[],
  lengthFields: readonly string[],
): Omit<GenerationRequest, 'prompts' | 'echo' | 'turns'> {
  const { body } = fields;
  const sampling = {
    temperature: fields.number('temperature'),
    top_p: fields.number('top_p'),
    frequency_penalty: fields.number('frequency_penalty'),
    presence_penalty: fields.number('presence_penalty'),
    n: fields.integer('n') ?? 1,
    min_tokens: fields.integer('min_tokens') ?? 0,
    max_tokens: lengthFields.reduce<number | null>((found, name) => found ?? fields.integer(name), null),
  };
  const stream = fields.flag('stream');
  const options = (body.stream_options ?? null) as Body | null;
  const model = body.model ?? null;
  if (model !== null && typeof model !== 'string') {
    fields.wrong('model', 'string_type', 'Input should be a valid string');
  }
  const seed = fields.integer('seed');
  fields.check();
  if (options && !stream) {
    throw badRequest('Stream options can only be defined when `stream=True`.', 'stream_options');
  }
  if (typeof model === 'string' && model !== '' && !servedNames.includes(model)) {
    throw notFound(
      `The model \`${model}\` does not exist. Valid aliases: ${servedNames.join(', ')}.`,
      'model',
    );
  }
  checkSampling(sampling);
  const stop = body.stop ?? [];
  return {
    n: sampling.n,
    maxTokens: sampling.max_tokens,
    minTokens: sampling.min_tokens,
    ignoreEos: fields.flag('ignore_eos'),
    stop: (Array.isArray(stop) ? stop : [stop]).map(String).filter((text) => text !== ''),
    includeStop: fields.flag('include_stop_str_in_output'),
    stream,
    includeUsage: options?.include_usage === true,
    continuousUsage: options?.continuous_usage_stats === true,
    requestId: typeof body.request_id === 'string' ? body.request_id : null,
    returnTokenIds: fields.flag('return_token_ids'),
    salt: saltOf(seed, sampling),
  };
}

/** Returns the salt. As in real engines, a seed's generator begins anew, and the penalties count the output alone. */
function saltOf(seed: number | null, { frequency_penalty, presence_penalty }: Sampling): number | null {
  if (seed === null && !frequency_penalty && !presence_penalty) return null;
  return seedFrom(JSON.stringify([seed, frequency_penalty, presence_penalty]));
}

interface Sampling {
  temperature: number | null;
  top_p: number | null;
  frequency_penalty: number | null;
  presence_penalty: number | null;
  n: number;
  min_tokens: number;
  max_tokens: number | null;
}

/** Checks sampling values by vLLM's limits, with its messages. */
function checkSampling(values: Sampling): void {
  const { temperature, top_p, n, min_tokens, max_tokens } = values;
  if (temperature !== null && temperature < 0) {
    throw badRequest(
      `temperature must be non-negative, got ${pythonFloat(temperature)}.`,
      'temperature',
      pythonFloat(temperature),
    );
  }
  if (temperature !== null && temperature > 2) {
    throw badRequest(
      `temperature must be in [0, 2], got ${pythonFloat(temperature)}.`,
      'temperature',
      pythonFloat(temperature),
    );
  }
  if (top_p !== null && (top_p <= 0 || top_p > 1)) {
    throw badRequest(`top_p must be in (0, 1], got ${pythonFloat(top_p)}.`, 'top_p', pythonFloat(top_p));
  }
  for (const name of ['presence_penalty', 'frequency_penalty'] as const) {
    const value = values[name];
    if (value !== null && (value < -2 || value > 2)) {
      throw badRequest(`${name} must be in [-2, 2], got ${pythonFloat(value)}.`);
    }
  }
  if (n < 1) throw badRequest(`n must be at least 1, got ${n}.`);
  if (n > 1 && temperature === 0) {
    throw badRequest(`n must be 1 when using greedy sampling, got ${n}.`);
  }
  if (max_tokens !== null && max_tokens >= 1 && min_tokens > max_tokens) {
    throw badRequest(`min_tokens must be less than or equal to max_tokens=${max_tokens}, got ${min_tokens}.`);
  }
}

function contentText(content: unknown, model: string): string {
  if (content === undefined || content === null) return '';
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw badRequest('Unknown content type of a message.');
  return content
    .map((part: Body) => {
      if (part?.type === 'text') return String(part.text ?? '');
      throw badRequest(`${model} is not a multimodal model`);
    })
    .join('\n');
}

function pythonFloat(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}
