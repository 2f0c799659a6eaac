import type { IncomingMessage, ServerResponse } from 'node:http';
import { engineDead, internalError, invalidBody, unsupportedMediaType } from './errors.ts';
import type { Receiver } from './scheduler.ts';
import type { AnswerHead, Shapes, TokenIds, WholeChoice } from './shapes.ts';

/** Reads a JSON body. @throws ApiError if it is not a JSON object; the request's own error if it was cut off */
export async function readJson(request: IncomingMessage): Promise<Record<string, unknown>> {
  const type = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase();
  const bytes = await readBytes(request);
  if (type !== 'application/json') throw unsupportedMediaType();
  let body: unknown;
  try {
    body = JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    const position = /position (\d+)/.exec((error as Error).message)?.[1] ?? '0';
    throw invalidBody([{ type: 'json_invalid', path: position, message: 'JSON decode error', input: {} }]);
  }
  if (typeof body === 'object' && body !== null && !Array.isArray(body))
    return body as Record<string, unknown>;
  const message = 'Input should be a valid dictionary or object to extract fields from';
  throw invalidBody([{ type: 'model_attributes_type', path: '', message, input: body }]);
}

/** Reads a form, and the number of its bytes. @throws ApiError if the body is no form */
export async function readForm(request: IncomingMessage): Promise<{ form: FormData; bytes: number }> {
  const bytes = await readBytes(request);
  const headers = { 'content-type': request.headers['content-type'] ?? '' };
  try {
    return { form: await new Response(new Uint8Array(bytes), { headers }).formData(), bytes: bytes.length };
  } catch {
    throw invalidBody([{ type: 'missing', path: 'file', message: 'Field required', input: null }]);
  }
}

async function readBytes(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

/** The plan of one answer. Each of its choices comes from a sequence of its own. */
export interface AnswerPlan {
  response: ServerResponse;
  shapes: Shapes;
  head: AnswerHead;
  /** The text before each choice's own (`echo`); there is one entry for each choice. */
  prefixes: string[];
  /** The ids of each choice's prompt; null: the answer has no ids. */
  prompts: TokenIds[];
  promptTokens: number;
  /** The number of prompt tokens that were computed before; undefined: the answer does not say. */
  cachedTokens: number | undefined;
  includeUsage: boolean;
  continuousUsage: boolean;
  /** Keeps the computed blocks for another engine, and returns the answer's field about them. Null: not requested. */
  handOver: ((generated: readonly number[]) => object) | null;
}

/** Sends the head at once, even if nothing can be generated yet, then an event for every token. */
export function streamedAnswer(plan: AnswerPlan): Receiver[] {
  const { response, shapes, head, prefixes, prompts, promptTokens } = plan;
  let pending = '';
  let begun = false;
  let isCut = false;
  let unfinished = prefixes.length;
  let completionTokens = 0;

  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  response.flushHeaders();
  // All events of a turn go in one write; bytes for which a slow reader has no room wait here.
  const flush = () => {
    if (pending === '' || isCut || response.writableEnded || response.writableNeedDrain) return;
    response.write(pending);
    pending = '';
  };
  response.on('drain', flush);
  const finish = () => {
    if (!isCut && !response.writableEnded) response.end(pending);
    pending = '';
  };
  const begin = () => {
    begun = true;
    const usage = plan.continuousUsage ? { prompt: promptTokens, completion: 0 } : null;
    for (const index of prefixes.keys()) pending += shapes.opening(head, index, usage, prompts[index]) ?? '';
  };

  return prefixes.map((prefix, index) => {
    const textEvent = shapes.text(head, index);
    let own = 0;
    return {
      token(text, ending, id) {
        if (!begun) begin();
        completionTokens++;
        own++;
        if (ending) unfinished--;
        const closes = unfinished === 0 && !plan.includeUsage;
        const usage = plan.continuousUsage ? { prompt: promptTokens, completion: own } : null;
        const prompt = prompts[index] ?? null;
        const ids = prompt && [id];
        pending += textEvent(
          own === 1 ? prefix + text : text,
          ending,
          closes,
          usage,
          ids,
          own === 1 ? prompt : null,
        );
        if (unfinished > 0) return;
        if (plan.includeUsage) {
          const cached = plan.cachedTokens;
          pending += shapes.usage(head, { prompt: promptTokens, cached, completion: completionTokens });
        }
        pending += shapes.done;
        finish();
      },
      flush,
      engineDied() {
        pending += shapes.error(engineDead()) + shapes.done;
        finish();
      },
      cut() {
        if (isCut) return;
        isCut = true;
        // The bytes so far must leave, and no others after them.
        response.write(pending, () => response.destroy());
      },
    };
  });
}

/** Answers a request whose blocks could not be read; by then vLLM has begun the stream. */
export function failedAnswer({ response, shapes, head, prompts }: AnswerPlan, isStream: boolean): void {
  const failure = internalError('Internal server error');
  if (!isStream) return sendJson(response, failure.status, failure.body);
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  response.end((shapes.opening(head, 0, null, prompts[0]) ?? '') + shapes.error(failure) + shapes.done);
}

/** Gathers the choices and sends them in one body. */
export function wholeAnswer(plan: AnswerPlan): Receiver[] {
  const { response, shapes, head, prefixes, prompts, promptTokens } = plan;
  const choices: (WholeChoice | null)[] = prefixes.map(() => null);
  let completionTokens = 0;
  return prefixes.map((prefix, index) => {
    const parts = [prefix];
    const prompt = prompts[index] ?? null;
    const ids: number[] = [];
    return {
      token(text, finish, id) {
        ids.push(id);
        completionTokens++;
        parts.push(text);
        if (!finish) return;
        choices[index] = { text: parts.join(''), finish, prompt, ids: prompt && ids };
        const all = choices.filter((choice) => choice !== null);
        if (all.length < choices.length) return;
        const usage = { prompt: promptTokens, cached: plan.cachedTokens, completion: completionTokens };
        const handed = plan.handOver && { kv_transfer_params: plan.handOver(ids) };
        sendJson(response, 200, { ...(shapes.whole(head, all, usage) as object), ...handed });
      },
      flush() {},
      engineDied() {
        if (!response.headersSent) sendJson(response, 500, engineDead().body);
      },
      cut: () => void response.destroy(),
    };
  });
}

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body);
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
  response.writeHead(status, headers).end(text);
}
