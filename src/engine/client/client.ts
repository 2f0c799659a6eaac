import { AssertionError } from 'node:assert';
import type { IncomingHttpHeaders } from 'node:http';
import { Agent, buildConnector, type Dispatcher, errors, Pool, request } from 'undici';
import { isRequestId } from '../../protocol/index.ts';
import type { EngineDescription } from '../kinds/description.ts';
import { vllm } from '../kinds/vllm.ts';
import { decodedAnswer, readableEvents } from './answer-body.ts';
import { type ModelList, readGauges, readModelList, versionIn } from './engine-facts.ts';
import { abortError, Exchange, type ExchangeHead } from './exchange.ts';
import {
  EngineAnswerInvalid,
  type EngineCall,
  type EngineClient,
  EngineGone,
  EngineRequestInvalid,
  EngineUnreachable,
  type Probe,
} from './types.ts';

/** The client closes idle sockets after this time, ms: uvicorn closes them after 5 s, and a machine may be busy. */
const KEEP_ALIVE_MS = 3000;
const CONNECT_TIMEOUT_MS = 5000;
/** The time limit of small requests, such as for the model list and the metrics, ms. */
const ASIDE_TIMEOUT_MS = 5000;
/** A reused socket that the engine had closed fails within this time, ms; a later break means that the engine died. */
const STALE_SOCKET_MS = 1000;

const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** A request whose answer has begun. */
interface Answering {
  head: ExchangeHead;
  exchange: Exchange;
}

export interface EngineClientOptions {
  /** The address of the engine, with or without a closing `/v1`. */
  baseUrl: string;
  apiKey?: string;
  /** The engine whose health routes and metric names are used; vLLM if left out. */
  engine?: Pick<EngineDescription, 'healthPaths' | 'metricsPath' | 'metricsPort' | 'metrics'>;
}

/**
 * Makes a client that speaks HTTP/1.1 to an engine, with one socket for each request in flight and as many as needed:
 * closing a request's socket is what makes vLLM stop generating.
 */
export function createEngineClient(options: EngineClientOptions): EngineClient {
  const engine = options.engine ?? vllm;
  const base = new URL(options.baseUrl);
  const prefix = base.pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
  const address = base.origin + prefix;
  const connectErrors = new WeakSet<Error>();
  const pool = createPool(base.origin, connectErrors);
  let metricsAgent: Agent | undefined;

  const brokenOff = (error: Error) =>
    new EngineGone(`the engine at ${address} broke off in the middle of its answer: ${messageOf(error)}`);

  async function sendOnce(call: EngineCall): Promise<Answering> {
    if (call.signal.aborted) throw abortError();
    if (pool.destroyed) throw new EngineUnreachable(`the client of the engine at ${address} is closed`);
    const exchange = new Exchange(call.signal, brokenOff);
    pool.dispatch(
      {
        method: call.method as Dispatcher.HttpMethod,
        path: prefix + call.path,
        headers: headersOf(call, options.apiKey),
        body: call.body,
      },
      exchange,
    );
    try {
      return { head: await exchange.head, exchange };
    } catch (error) {
      if (call.signal.aborted) throw abortError();
      const message = messageOf(error);
      if (error instanceof Error && connectErrors.has(error)) {
        throw new EngineUnreachable(`no connection to the engine at ${address}: ${message}`, {
          cause: error,
        });
      }
      if (error instanceof errors.InvalidArgumentError) {
        throw new EngineRequestInvalid(`the request cannot be sent to an engine: ${message}`);
      }
      if (isAnswerInvalid(error)) throw invalidAnswer(message);
      throw new EngineGone(`the engine at ${address} broke the connection before it answered: ${message}`);
    }
  }

  function invalidAnswer(problem: string): EngineAnswerInvalid {
    return new EngineAnswerInvalid(
      `the engine at ${address} gave an answer that HTTP does not know: ${problem}`,
    );
  }

  /**
   * Sends a request, and sends it once more if it is cut at once: a socket that the engine closes at the very moment
   * when the client reuses it fails a request that the engine never read. If the first request did run, vLLM has
   * dropped it with its socket, and a generation changes nothing outside the engine. If nothing listens the second
   * time, the engine died during the first request, and the error stays EngineGone.
   */
  async function send(call: EngineCall): Promise<Answering> {
    const sentAt = performance.now();
    try {
      return await sendOnce(call);
    } catch (error) {
      if (!(error instanceof EngineGone) || performance.now() - sentAt > STALE_SOCKET_MS) throw error;
      return await sendOnce(call).catch((second) => {
        throw second instanceof EngineUnreachable ? error : second;
      });
    }
  }

  /** Sends a small GET with a time limit. */
  async function ask(path: string, timeoutMs: number): Promise<{ status: number; text: string }> {
    const signal = AbortSignal.timeout(timeoutMs);
    const { head, exchange } = await sendOnce({ method: 'GET', path, signal });
    const pieces: Uint8Array[] = [];
    await exchange.eachPiece((piece) => void pieces.push(piece));
    return { status: head.status, text: Buffer.concat(pieces).toString() };
  }

  /** Reads the metrics, which some engines serve on a port of their own. */
  async function askMetrics(): Promise<{ status: number; text: string }> {
    if (!engine.metricsPort) return ask(engine.metricsPath, ASIDE_TIMEOUT_MS);
    const url = new URL(engine.metricsPath, base.origin);
    url.port = String(engine.metricsPort(Number(base.port)));
    // A separate agent connects without a proxy, which undici's global agent may use.
    metricsAgent ??= new Agent();
    const dispatcher = metricsAgent;
    const response = await request(url, { dispatcher, signal: AbortSignal.timeout(ASIDE_TIMEOUT_MS) });
    return { status: response.statusCode, text: await response.body.text() };
  }

  async function metricsPage(): Promise<string | null> {
    const answer = await askMetrics().catch(() => null);
    return answer?.status === 200 ? answer.text : null;
  }

  async function askModels(): Promise<ModelList> {
    const answer = await ask('/v1/models', ASIDE_TIMEOUT_MS).catch(() => null);
    return readModelList(answer?.status === 200 ? answer.text : '');
  }

  async function probe(timeoutMs: number): Promise<Probe> {
    try {
      for (const path of engine.healthPaths) {
        const { status } = await ask(path, timeoutMs);
        if (status !== 404) return status === 200 ? 'healthy' : 'unhealthy';
      }
      return 'unhealthy';
    } catch (error) {
      return error instanceof EngineUnreachable ? 'refused' : 'unhealthy';
    }
  }

  return {
    async request(call) {
      const { head, exchange } = await send(call);
      const { status, headers } = head;
      if (status < 200 || status > 599) {
        exchange.leave();
        throw invalidAnswer(`its status is ${status}`);
      }
      const answer = decodedAnswer({ status, headers: endToEnd(headers), body: exchange });
      return await readableEvents(answer, call.path);
    },
    probe,
    async isHealthy(timeoutMs) {
      return (await probe(timeoutMs)) === 'healthy';
    },
    async models() {
      return (await askModels()).names;
    },
    async modelCards() {
      return (await askModels()).cards;
    },
    metricsPage,
    async gauges() {
      const page = await metricsPage();
      return page === null ? null : readGauges(page, engine.metrics);
    },
    async version() {
      const answer = await ask('/version', ASIDE_TIMEOUT_MS).catch(() => null);
      return answer?.status === 200 ? versionIn(answer.text) : null;
    },
    async close() {
      await pool.destroy();
    },
  };
}

/** Makes the pool of sockets. @param connectErrors collects errors of connections that were never made */
function createPool(origin: string, connectErrors: WeakSet<Error>): Pool {
  // HTTP/2 would share one socket between requests.
  const connector = buildConnector({ timeout: CONNECT_TIMEOUT_MS, allowH2: false });
  return new Pool(origin, {
    connections: null,
    pipelining: 1,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Without this limit undici adopts a longer time that an engine names, less a second.
    keepAliveMaxTimeout: KEEP_ALIVE_MS,
    // A long generation may be silent without limit; only the job's deadline bounds it.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: (target, done) =>
      connector(target, (...outcome) => {
        if (outcome[0]) connectErrors.add(outcome[0]);
        done(...outcome);
      }),
  });
}

function headersOf(call: EngineCall, apiKey: string | undefined): Record<string, string> {
  // The worker does not know which encodings the caller accepts.
  const headers: Record<string, string> = { ...call.headers, 'accept-encoding': 'identity' };
  if (apiKey) headers.authorization = `Bearer ${apiKey}`;
  // A base queue may use any text as the id of a job. The client always sends an id, since the header takes precedence
  // over an id in the body.
  if (call.requestId !== undefined)
    headers['x-request-id'] = isRequestId(call.requestId) ? call.requestId : crypto.randomUUID();
  if (call.body !== undefined) headers['content-type'] = call.contentType ?? 'application/json';
  return headers;
}

function endToEnd(headers: IncomingHttpHeaders): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || HOP_BY_HOP.has(name)) continue;
    kept[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return kept;
}

/** Recognises heads that cannot be parsed, are too long, or belong to another protocol. */
function isAnswerInvalid(error: unknown): boolean {
  if (error instanceof errors.HTTPParserError || error instanceof errors.HeadersOverflowError) return true;
  // undici asserts that a status is at least 100.
  if (error instanceof AssertionError) return true;
  return error instanceof errors.SocketError && /^bad (response|upgrade)$/.test(error.message);
}

/** Returns an error's message. Node reports several refused addresses as one error without a message of its own. */
function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join(', ');
  return error instanceof Error ? error.message : String(error);
}
