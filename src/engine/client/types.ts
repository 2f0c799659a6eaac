import type { ModelCard } from '../../protocol/index.ts';

/**
 * What the rest of the road knows of an engine. Implementations: client.ts (HTTP), and the
 * scripted engines of tests.
 */

/** One request to the engine, as the caller made it. */
export interface EngineCall {
  method: string;
  /** Path and query, e.g. `/v1/chat/completions`. */
  path: string;
  body?: string | Uint8Array;
  contentType?: string;
  /** More headers, with lower-case names. */
  headers?: Readonly<Record<string, string>>;
  /** Sent as `X-Request-Id`; vLLM makes it part of the completion's id. */
  requestId?: string;
  /** Aborting closes the socket to the engine at once, which stops generation. */
  signal: AbortSignal;
}

export interface EngineAnswer {
  status: number;
  /** Lower-case names; hop-by-hop headers are left out. */
  headers: Record<string, string>;
  body: AnswerBody;
}

/** A body as it arrives; ending the iteration early closes the socket. Throws EngineGone when cut. */
export interface AnswerBody extends AsyncIterable<Uint8Array> {
  /** The same without a promise for each piece. Either way it can be read once; `readPieces` takes the better one. */
  eachPiece?(take: TakePiece): Promise<void>;
}

/**
 * Takes a piece of a body. False: enough, the socket is closed. A promise makes the engine wait. An error that it throws
 * ends the reading and closes the socket.
 */
export type TakePiece = (piece: Uint8Array) => false | undefined | Promise<false | undefined>;

/** Gives every piece of a body, and resolves at its end or when no more is wanted. */
export async function readPieces(body: AnswerBody, take: TakePiece): Promise<void> {
  if (body.eachPiece) return await body.eachPiece(take);
  for await (const piece of body) {
    const answer = take(piece);
    if (answer === false || (answer && (await answer) === false)) return;
  }
}

/** A body that is known to be short, as text. */
export async function readText(body: AnswerBody): Promise<string> {
  const pieces: Uint8Array[] = [];
  await readPieces(body, (piece) => void pieces.push(piece));
  return Buffer.concat(pieces).toString();
}

/** Live gauges, from the engine's metrics page. */
export interface EngineGauges {
  running: number;
  waiting: number;
  /** 0..1 */
  kvCacheUsage: number;
  /** Sum of the counters that grow with everything the engine makes; left out where it counts nothing. */
  progress?: number;
  /** Tokens generated since its start; left out where it counts none. */
  generatedTokens?: number;
  /** Requests put back to wait for want of KV cache, since its start; left out where it counts none. */
  preemptions?: number;
}

/** `refused`: nothing listens. `unhealthy`: late, cut, or not 200. */
export type Probe = 'healthy' | 'unhealthy' | 'refused';

export interface EngineClient {
  /** Whether another engine has the GPU that it shares; left out: it shares none. */
  readonly isAsleep?: boolean;
  /** Whether requests wait for its turn: it sleeps, or does so when what runs has ended. */
  readonly awaitsTurn?: boolean;
  /**
   * @throws EngineUnreachable when no connection could be made (nothing ran)
   * @throws EngineGone when the connection broke before the head (it may have run)
   * @throws EngineAnswerInvalid when what came back is no answer that HTTP knows
   * @throws EngineRequestInvalid when HTTP has no way to send the request; nothing was sent
   * @throws DOMException `AbortError` when the signal fired
   */
  request(call: EngineCall): Promise<EngineAnswer>;
  /** One probe of the engine's health route. Never throws. */
  probe(timeoutMs: number): Promise<Probe>;
  /** The same as a yes or no. */
  isHealthy(timeoutMs: number): Promise<boolean>;
  /** Names from `/v1/models`. Empty when the engine does not tell. */
  models(): Promise<string[]>;
  /** The entries of `/v1/models`, as many as are told further. Empty when the engine does not tell. */
  modelCards(): Promise<ModelCard[]>;
  /** Null when the engine has no metrics page. */
  gauges(): Promise<EngineGauges | null>;
  /** The engine's metrics page as it stands; null when it has none. Never throws. */
  metricsPage(): Promise<string | null>;
  /** From `/version`; null when the engine does not tell. Never throws. */
  version(): Promise<string | null>;
  /** Closes every connection; requests in flight fail with EngineGone. */
  close(): Promise<void>;
}

/** Nothing listens where the engine should be: the request did not run. */
export class EngineUnreachable extends Error {
  override name = 'EngineUnreachable';
}

/** The connection broke while the request ran: it may have run, its answer is lost. */
export class EngineGone extends Error {
  override name = 'EngineGone';
}

/** The engine answered with something that HTTP does not know; what else it runs is not concerned. */
export class EngineAnswerInvalid extends Error {
  override name = 'EngineAnswerInvalid';
}

/** A request that cannot be put into HTTP: the caller's mistake, and nothing was sent. */
export class EngineRequestInvalid extends Error {
  override name = 'EngineRequestInvalid';
}
