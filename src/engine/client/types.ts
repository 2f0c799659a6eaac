import type { ModelCard } from '../../protocol/index.ts';

/**
 * The interface of an engine for the rest of the worker. client.ts implements it over HTTP; tests have scripted
 * engines.
 */

/** One request to the engine in the caller's form. */
export interface EngineCall {
  method: string;
  /** The path and query, such as `/v1/chat/completions`. */
  path: string;
  body?: string | Uint8Array;
  contentType?: string;
  /** Further headers, with lower-case names. */
  headers?: Readonly<Record<string, string>>;
  /** The id sent as `X-Request-Id`; vLLM makes it part of the completion's id. */
  requestId?: string;
  /** Aborting closes the socket to the engine at once, which stops generation. */
  signal: AbortSignal;
}

export interface EngineAnswer {
  status: number;
  /** The headers with lower-case names; hop-by-hop headers are left out. */
  headers: Record<string, string>;
  body: AnswerBody;
}

/** A body as it arrives; ending the iteration early closes the socket. Throws EngineGone when cut. */
export interface AnswerBody extends AsyncIterable<Uint8Array> {
  /**
   * Reads the body without a promise for each piece. A body can be read once, either way; `readPieces` uses the faster
   * one.
   */
  eachPiece?(take: TakePiece): Promise<void>;
}

/**
 * Takes a piece of a body. Returning false means that no more is wanted, and closes the socket; returning a promise
 * makes the engine wait. An error that it throws ends the reading and closes the socket.
 */
export type TakePiece = (piece: Uint8Array) => false | undefined | Promise<false | undefined>;

/** Gives every piece of a body to `take`; resolves at the body's end or when no more is wanted. */
export async function readPieces(body: AnswerBody, take: TakePiece): Promise<void> {
  if (body.eachPiece) return await body.eachPiece(take);
  for await (const piece of body) {
    const answer = take(piece);
    if (answer === false || (answer && (await answer) === false)) return;
  }
}

/** Returns a body that is known to be short, as text. */
export async function readText(body: AnswerBody): Promise<string> {
  const pieces: Uint8Array[] = [];
  await readPieces(body, (piece) => void pieces.push(piece));
  return Buffer.concat(pieces).toString();
}

/** Live gauges, from the engine's metrics page. */
export interface EngineGauges {
  running: number;
  waiting: number;
  /** The share of the KV cache in use, 0 to 1. */
  kvCacheUsage: number;
  /** The sum of the counters that grow with all output of the engine; left out: the engine counts nothing. */
  progress?: number;
  /** The tokens generated since the engine's start; left out: the engine does not count them. */
  generatedTokens?: number;
  /** The preemptions for lack of KV cache since the engine's start; left out: the engine does not count them. */
  preemptions?: number;
}

/** The result of a probe. `refused`: nothing listens. `unhealthy`: the answer was late, cut, or not 200. */
export type Probe = 'healthy' | 'unhealthy' | 'refused';

export interface EngineClient {
  /** Whether another engine has the GPU that this one shares; left out: it shares none. */
  readonly isAsleep?: boolean;
  /** Whether requests wait for the engine's turn: it sleeps, or will once its running requests have ended. */
  readonly awaitsTurn?: boolean;
  /**
   * Tells an engine that shares its GPU that it has answered all that its worker asks before it offers slots; left out:
   * it shares none.
   */
  started?(): void;
  /**
   * Sends a request.
   * @throws EngineUnreachable when no connection could be made (nothing ran)
   * @throws EngineGone when the connection broke before the head (the request may have run)
   * @throws EngineAnswerInvalid when the answer is not valid HTTP
   * @throws EngineRequestInvalid when HTTP cannot carry the request; nothing was sent
   * @throws DOMException `AbortError` when the signal fired
   */
  request(call: EngineCall): Promise<EngineAnswer>;
  /** Probes the engine's health route once. Never throws. */
  probe(timeoutMs: number): Promise<Probe>;
  /** Probes the engine's health route once, and returns true if the engine is healthy. */
  isHealthy(timeoutMs: number): Promise<boolean>;
  /** Returns the names from `/v1/models`; none when the engine does not report them. */
  models(): Promise<string[]>;
  /** Returns the entries of `/v1/models`, up to the worker's limit; none when the engine does not report them. */
  modelCards(): Promise<ModelCard[]>;
  /** Returns the engine's gauges; null when it has no metrics page. */
  gauges(): Promise<EngineGauges | null>;
  /** Returns the engine's metrics page unchanged; null when it has none. Never throws. */
  metricsPage(): Promise<string | null>;
  /** Returns the version from `/version`; null when the engine does not report it. Never throws. */
  version(): Promise<string | null>;
  /** Closes every connection; requests in flight fail with EngineGone. */
  close(): Promise<void>;
}

/** Thrown when nothing listens where the engine should be: the request did not run. */
export class EngineUnreachable extends Error {
  override name = 'EngineUnreachable';
}

/** Thrown when the connection broke while the request ran: it may have run, and its answer is lost. */
export class EngineGone extends Error {
  override name = 'EngineGone';
}

/** Thrown when the engine's answer is not valid HTTP; its other requests are not affected. */
export class EngineAnswerInvalid extends Error {
  override name = 'EngineAnswerInvalid';
}

/** Thrown for a request that HTTP cannot carry: it is the caller's mistake, and nothing was sent. */
export class EngineRequestInvalid extends Error {
  override name = 'EngineRequestInvalid';
}

/** Yields a whole body of which some pieces were already taken. Ending it early closes the socket, as for any body. */
export async function* resumed(
  taken: readonly Uint8Array[],
  rest: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    yield* taken;
    for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
  } finally {
    await rest.return?.();
  }
}
