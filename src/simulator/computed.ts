import type { IncomingMessage, ServerResponse } from 'node:http';
import { readMessages, scaleOutDisabled } from './apis.ts';
import { ApiError, badRequest, invalidBody } from './errors.ts';
import type { Body } from './fields.ts';
import { readForm, readJson, sendJson } from './http.ts';
import { readChat } from './requests.ts';
import { readResponses } from './responses.ts';
import { countTokens, seedFrom } from './text.ts';

/** This file makes answers without generation, in the shapes of vLLM 0.32.0: tokens, embeddings and scores. */

interface Model {
  names: readonly string[];
  maxModelLen: number;
  /** Whether routes of `--enable-scale-out` are allowed. */
  enableScaleOut: boolean;
}

const EMBEDDING_SIZE = 8;

/** The functions that make the bodies of answers, by route. Each throws ApiError. */
const COMPUTED: Record<string, (body: Body, model: Model) => unknown> = {
  '/tokenize': (body, model) => {
    const tokens =
      'messages' in body ? readChat(body, model.names).prompts[0]!.ids : tokensOf(textOf(body, 'prompt'));
    const strings = body.return_token_strs === true ? tokens.map((token) => partOf(token).toString()) : null;
    return { count: tokens.length, max_model_len: model.maxModelLen, tokens, token_strs: strings };
  },
  '/v1/responses/render': (body, model) => {
    if (!model.enableScaleOut) throw scaleOutDisabled();
    const { text, ids } = readResponses(body, model.names).prompts[0]!;
    return { request_id: idOf([text]), token_ids: ids, model: model.names[0] };
  },
  '/detokenize': (body) => {
    if (!Array.isArray(body.tokens)) throw missing('tokens', body);
    return { prompt: Buffer.concat(body.tokens.map((token) => partOf(Number(token)))).toString() };
  },
  '/v1/embeddings': (body, model) => {
    const inputs = listOf(body, 'input');
    const data = inputs.map((text, index) => ({ index, object: 'embedding', embedding: numbersOf(text) }));
    return { ...list('embd', model, inputs), data };
  },
  '/v2/embed': (body) => {
    const texts = listOf(body, 'texts');
    const embeddings = { float: texts.map(numbersOf) };
    return { id: `embd-${idOf(texts)}`, embeddings, texts, response_type: 'embeddings_by_type' };
  },
  '/pooling': (body, model) => {
    const inputs = listOf(body, 'input');
    const data = inputs.map((text, index) => ({ index, object: 'pooling', data: [numbersOf(text)] }));
    return { ...list('pool', model, inputs), data };
  },
  '/classify': (body, model) => {
    const inputs = listOf(body, 'input');
    const data = inputs.map((text, index) => {
      const share = scoreOf(text, '');
      return { index, label: share > 0.5 ? 'LABEL_1' : 'LABEL_0', probs: [1 - share, share], num_classes: 2 };
    });
    return { ...list('classify', model, inputs), data };
  },
  '/score': (body, model) => {
    const one = listOf(body, 'text_1' in body ? 'text_1' : 'queries');
    const other = listOf(body, 'text_2' in body ? 'text_2' : 'documents');
    const data = other.map((text, index) => {
      return { index, object: 'score', score: scoreOf(one[index] ?? one[0]!, text) };
    });
    return { ...list('embd', model, [...one, ...other]), data };
  },
  '/rerank': (body, model) => {
    const query = textOf(body, 'query');
    const documents = listOf(body, 'documents');
    const tokens = documents.reduce((sum, text) => sum + countTokens(query + text), 0);
    const results = documents
      .map((text, index) => ({
        index,
        document: { text, multi_modal: null },
        relevance_score: scoreOf(query, text),
      }))
      .sort((a, b) => b.relevance_score - a.relevance_score)
      .slice(0, Number(body.top_n) || documents.length);
    return {
      id: `rerank-${idOf([query, ...documents])}`,
      model: model.names[0],
      usage: { prompt_tokens: tokens, total_tokens: tokens },
      results,
    };
  },
  '/generative_scoring': (body, model) => {
    const items = listOf(body, 'items');
    const data = items.map((text, index) => ({
      index,
      object: 'score',
      score: scoreOf(textOf(body, 'query'), text),
    }));
    return { ...list('generative-scoring', model, items), data };
  },
  '/v1/images/generations': (body) => {
    const png = Buffer.from([
      0x89,
      0x50,
      0x4e,
      0x47,
      0x0d,
      0x0a,
      0x1a,
      0x0a,
      ...tokensOf(textOf(body, 'prompt')),
    ]);
    return { created: 1, data: [{ b64_json: png.toString('base64') }] };
  },
};

// The same functions also serve the routes' other names.
for (const path of ['/tokenize', '/detokenize', '/pooling', '/classify', '/score', '/rerank']) {
  COMPUTED[`/v1${path}`] = COMPUTED[path]!;
}
COMPUTED['/v2/rerank'] = COMPUTED['/rerank']!;

/** Returns made-up speech: all 256 bytes, and the text. */
function speech(body: Body): { type: string; bytes: Buffer } {
  const format = body.response_format ?? 'wav';
  const noise = Buffer.from(Array.from({ length: 1024 }, (_, at) => at % 256));
  return { type: `audio/${format}`, bytes: Buffer.concat([noise, Buffer.from(textOf(body, 'input'))]) };
}

/** Returns the text that a transcription hears in a file. */
function transcript(form: FormData, bytes: number, model: Model): { type: string; body: string } {
  const asked = form.get('model');
  if (typeof asked === 'string' && !model.names.includes(asked)) {
    throw new ApiError(404, 'NotFoundError', `The model \`${asked}\` does not exist.`, 'model');
  }
  if (!(form.get('file') instanceof File)) throw missing('file', {});
  const text = `${bytes} bytes were heard`;
  if (form.get('response_format') === 'text') return { type: 'text/plain; charset=utf-8', body: text };
  return {
    type: 'application/json',
    body: JSON.stringify({ text, usage: { type: 'duration', seconds: 1 } }),
  };
}

function list(prefix: string, model: Model, texts: readonly string[]) {
  const tokens = texts.reduce((sum, text) => sum + countTokens(text), 0);
  return {
    id: `${prefix}-${idOf(texts)}`,
    object: 'list',
    created: 1,
    model: model.names[0],
    data: [] as unknown[],
    usage: { prompt_tokens: tokens, total_tokens: tokens, completion_tokens: 0, prompt_tokens_details: null },
  };
}

/** Splits a text into tokens, each the number of at most three bytes. */
function tokensOf(text: string): number[] {
  const bytes = Buffer.from(text);
  return Array.from({ length: Math.ceil(bytes.length / 3) }, (_, at) => {
    const part = bytes.subarray(3 * at, 3 * at + 3);
    return part.readUIntBE(0, part.length) + part.length * 2 ** 24;
  });
}

function partOf(token: number): Buffer {
  const length = Math.min(3, Math.floor(token / 2 ** 24));
  const part = Buffer.alloc(length);
  if (length > 0) part.writeUIntBE(token % 2 ** 24, 0, length);
  return part;
}

function numbersOf(text: string): number[] {
  return Array.from({ length: EMBEDDING_SIZE }, (_, at) => (seedFrom(`${at}${text}`) % 2000) / 1000 - 1);
}

function scoreOf(one: string, other: string): number {
  return (seedFrom(`${one}\n${other}`) % 1000) / 1000;
}

function idOf(texts: readonly string[]): string {
  return seedFrom(texts.join('\n')).toString(16);
}

function textOf(body: Body, name: string): string {
  const value = body[name];
  if (value === undefined) throw missing(name, body);
  if (typeof value !== 'string') throw badRequest('Input should be a valid string', name);
  return value;
}

function listOf(body: Body, name: string): string[] {
  const value = body[name];
  if (value === undefined) throw missing(name, body);
  return (Array.isArray(value) ? value : [value]).map((entry) =>
    typeof entry === 'string' ? entry : JSON.stringify(entry),
  );
}

function missing(path: string, input: unknown): ApiError {
  return invalidBody([{ type: 'missing', path, message: 'Field required', input }]);
}

type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** Routes that answer at once, without the scheduler. */
export function computedRoutes(model: Model): Record<string, { POST: Handler }> {
  const computed = Object.entries(COMPUTED).map(([path, answer]) => {
    const POST: Handler = async (request, response) =>
      sendJson(response, 200, answer(await readJson(request), model));
    return [path, { POST }] as const;
  });
  return {
    ...Object.fromEntries(computed),
    '/v1/messages/count_tokens': {
      POST: async (request, response) => {
        const { prompts } = readMessages(await readJson(request), model.names);
        sendJson(response, 200, { input_tokens: prompts[0]!.ids.length });
      },
    },
    '/v1/audio/speech': {
      POST: async (request, response) => {
        const { type, bytes } = speech(await readJson(request));
        response.writeHead(200, { 'content-type': type, 'content-length': bytes.length }).end(bytes);
      },
    },
    '/v1/audio/transcriptions': { POST: heard(model) },
    '/v1/audio/translations': { POST: heard(model) },
  };
}

function heard(model: Model): Handler {
  return async (request, response) => {
    const { form, bytes } = await readForm(request);
    const { type, body } = transcript(form, bytes, model);
    response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body);
  };
}
