import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HangUp, Look, Opened, Outcome } from '../../../asking/attempt-loop.ts';
import type { AskedFor, RelayStub } from '../../../asking/objects.ts';
import { authorize } from '../../../gateway/auth/authorize.ts';
import { holdBytes } from '../../../gateway/bodies/body.ts';
import { BODY_WITHIN_MS, RECEIVE_BYTES, tooSlow } from '../../../gateway/bodies/receive.ts';
import { type Env, inferenceRoutesOf, type RequestHead } from '../../../gateway/env.ts';
import { errorResponse, HttpError, toHttpError } from '../../../gateway/errors.ts';
import { answer, beginAfterMs, within } from '../../../gateway/inference/answer.ts';
import { callEngine } from '../../../gateway/inference/call-engine.ts';
import {
  type InferenceRequest,
  mostBodyBytes,
  readRequest,
} from '../../../gateway/inference/read-request.ts';
import { isOddHost, requestIdHeaders } from '../../../gateway/middleware.ts';
import { dialectOf, isRequestId, routeAt } from '../../../protocol/index.ts';
import { type OpenedAnswer, responseOf } from '../../../relay/object/responses.ts';
import { writeAnswer } from './answer.ts';
import type { Direct } from './server.ts';
import { writeOpened } from './write-opened.ts';

/** The headers that the gateway's middleware acts on: a request that has one goes through the middleware. */
const OTHERWISE = ['origin', 'content-encoding', 'upgrade', 'expect', 'transfer-encoding'];

/** The answer of an engine, with further headers of the gateway. */
type Opening = { opened: Exclude<OpenedAnswer, { broken: unknown }>; more: Record<string, string> };

/**
 * Answers many requests for inference without a Request, Response or stream, which would cost more than all rules of
 * the gateway. The gateway's routes answer all other requests; where both can answer, the answers are the same.
 */
export function directInference(env: Env): Direct {
  return {
    takes: (incoming) => isDirect(incoming, env),
    answer: (incoming, outgoing, hangUp, background) =>
      answerDirectly(incoming, outgoing, hangUp, { env, background }),
  };
}

function isDirect({ method, url = '', headers }: IncomingMessage, env: Env): boolean {
  // Filters look at Requests and Responses.
  if (env.filters) return false;
  // Most requests are for these routes, and engines answer all of them.
  const route = method === 'POST' ? routeAt(url) : null;
  if (route === null || route.list === null || route.dialect === 'responses') return false;
  if (OTHERWISE.some((name) => headers[name] !== undefined)) return false;
  const length = Number(headers['content-length']);
  if (!(length > 0 && length <= Math.min(RECEIVE_BYTES, mostBodyBytes(env)))) return false;
  if (headers.host === undefined || isOddHost(headers.host)) return false;
  return inferenceRoutesOf(env).methodsOf(url).includes('POST');
}

async function answerDirectly(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  hangUp: HangUp,
  { env, background }: { env: Env; background: (work: Promise<unknown>) => void },
): Promise<void> {
  const head = new IncomingHead(incoming);
  const path = incoming.url!;
  const given = head.headers.get('x-request-id') ?? undefined;
  let requestId = isRequestId(given) ? given : randomUUID();
  let response: Response;
  try {
    const token = await authorize(head, env, ['submit']);
    const asked = await readRequest(env, { head, pathname: path, path, token }, async () => {
      const release = holdBytes(env, Number(incoming.headers['content-length']));
      try {
        return { bytes: await readShortBody(incoming), release };
      } catch (error) {
        release();
        throw error;
      }
    });
    requestId = asked.errorOf.requestId;
    const attempted = callEngine(env, asked, hangUp, { open, look, background });
    const outcome = await soon(attempted, asked);
    if (outcome?.kind === 'answer') {
      const { opened, more } = outcome.answer;
      return writeOpened(opened, more, outgoing);
    }
    const whole = attempted.then(withResponse);
    response = await answer(env, asked, whole, hangUp, outcome === null ? { afterMs: 0 } : {});
  } catch (error) {
    response = errorResponse(toHttpError(error, requestId), { dialect: dialectOf(path), requestId });
  }
  for (const [name, value] of Object.entries(requestIdHeaders(requestId, dialectOf(path)))) {
    response.headers.set(name, value);
  }
  await writeAnswer(response, incoming, outgoing);
}

async function open(relay: RelayStub, streamId: number, asked: AskedFor): Promise<Opened<Opening>> {
  const opened = await relay.openAnswer!(streamId, asked);
  if ('broken' in opened) return opened;
  return { answer: { opened, more: asked.more }, drop: () => opened.gone() };
}

function look(answer: Opening): Look {
  const { opened } = answer;
  const text = async () => {
    const whole = opened.whole ?? new Uint8Array(await responseOf(opened, {}).arrayBuffer());
    answer.opened = { ...opened, whole };
    return new TextDecoder().decode(whole);
  };
  return { status: opened.head.status, text };
}

/** Resolves to the outcome, or to null if it is not there by the time the answer has to begin. */
function soon(
  attempted: Promise<Outcome<Opening>>,
  { kind, given }: InferenceRequest,
): Promise<Outcome<Opening> | null> {
  return kind === null ? attempted : within(attempted, beginAfterMs(Object.values(given)), globalThis);
}

/** Turns an outcome into one with a Response, for answers that take long or are inspected on their way. */
function withResponse(outcome: Outcome<Opening>): Outcome {
  if (outcome.kind !== 'answer') return outcome;
  const { opened, more } = outcome.answer;
  return { kind: 'answer', answer: responseOf(opened, more) };
}

/** The head of a request as Node has parsed it. */
class IncomingHead implements RequestHead {
  readonly #incoming: IncomingMessage;
  readonly headers: RequestHead['headers'];

  constructor(incoming: IncomingMessage) {
    this.#incoming = incoming;
    this.headers = new ParsedHeaders(incoming.headers);
  }

  get method(): string {
    return this.#incoming.method!;
  }

  get url(): string {
    return `http://${this.#incoming.headers.host}${this.#incoming.url}`;
  }
}

class ParsedHeaders {
  readonly #headers: IncomingMessage['headers'];

  constructor(headers: IncomingMessage['headers']) {
    this.#headers = headers;
  }

  get(name: string): string | null {
    const value = this.#headers[name.toLowerCase()];
    return (Array.isArray(value) ? value.join(', ') : value) ?? null;
  }

  has(name: string): boolean {
    return this.#headers[name.toLowerCase()] !== undefined;
  }

  *[Symbol.iterator](): Iterator<[string, string]> {
    for (const name of Object.keys(this.#headers)) yield [name, this.get(name)!];
  }
}

/**
 * Reads the whole of a body whose head gives the length.
 * @throws HttpError 408 when it comes too slowly, 499 when its caller leaves
 */
function readShortBody(incoming: IncomingMessage): Promise<Uint8Array<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    const bytes = new Uint8Array(Number(incoming.headers['content-length']));
    let size = 0;
    const timer = setTimeout(() => over(() => reject(tooSlow())), BODY_WITHIN_MS);
    const onData = (piece: Buffer) => {
      bytes.set(piece, size);
      size += piece.byteLength;
    };
    const onEnd = () => over(() => resolve(bytes));
    const onClose = () => over(() => reject(new HttpError(499, 'The caller hung up.', 'caller_gone')));
    const over = (settle: () => void) => {
      clearTimeout(timer);
      incoming.off('data', onData).off('end', onEnd).off('close', onClose);
      settle();
    };
    incoming.on('data', onData).on('end', onEnd).on('close', onClose);
  });
}
