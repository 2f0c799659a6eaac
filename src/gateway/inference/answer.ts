import type { HangUp, Outcome } from '../../asking/attempt-loop.ts';
import { brokenOff, EVENT_STREAM, errorEvents, readApiError, UNBUFFERED } from '../../protocol/index.ts';
import type { WaitingLineView } from '../../queue/rpc.ts';
import { behindComment } from '../../relay/keep-alive.ts';
import type { Env } from '../env.ts';
import { type ErrorOf, errorResponse, toHttpError } from '../errors.ts';
import { filteredAnswer } from './filtered.ts';
import type { InferenceRequest } from './read-request.ts';
import { respond } from './respond.ts';

interface AnswerOptions {
  /** When the answer begins, ms; left out, the caller's limits decide. */
  afterMs?: number;
  /** Changes the answer on its way to the caller; left out, it stays as it is. */
  passing?: (response: Response) => Promise<Response>;
}

/**
 * Returns the answer to a request; it begins before the engine's answer is there where that takes long.
 */
export function answer(
  env: Env,
  request: InferenceRequest,
  attempted: Promise<Outcome>,
  hangUp: HangUp,
  {
    afterMs = beginAfterMs(Object.values(request.given)),
    passing = async (response) => response,
  }: AnswerOptions = {},
): Promise<Response> {
  const { queueId, facts, errorOf, headers, kind, asked } = request;
  const { job_id: jobId } = request.call;
  const answered = attempted.then(async (outcome) => {
    const response = respond(outcome, { jobId, facts, errorOf }, Date.now());
    return passing(asked === null ? response : await filteredAnswer(env, response, asked, errorOf));
  });
  if (kind === null) return answered;
  return respondEarly(answered, {
    kind,
    headers,
    errorOf,
    timers: globalThis,
    hangUp: () => hangUp.happen(),
    afterMs,
    progress: async () => {
      if (env.away?.()) return 'waiting for the queue, which cannot be reached';
      return await waitingPlace(queueId, jobId, () => env.objects.queue(queueId).waitingLines(), Date.now);
    },
  });
}

/** A response starts after this many ms. Engines reject bad requests within a second of accepting them. */
export const BEGIN_AFTER_MS = 1500;

/** Time between two comments or blanks, ms. */
const WRITE_EVERY_MS = 1000;

/**
 * A caller that limits its own waiting to this many ms or fewer is answered with a status: its response begins after
 * that limit, with time for the answer to come back.
 */
const SHORT_LIMIT_MS = 5000;
const MARGIN_MS = 1000;

/**
 * The host has this many ms to send an error before the response is broken off, which discards what it has not sent.
 */
const BEFORE_BREAK_MS = 100;

const encoder = new TextEncoder();

const BLANK = encoder.encode('\n');

/** The timers of one request: on Cloudflare requests cannot share timers. */
interface Timers {
  setTimeout(run: () => void, ms: number): unknown;
  clearTimeout(timer: never): void;
}

export interface EarlyParts {
  /** The answer's form: an event stream, or JSON. */
  kind: 'events' | 'json';
  /** The headers of a response that begins before there is an answer. */
  headers: Record<string, string>;
  errorOf: ErrorOf;
  timers: Timers;
  /** Stops working for a caller that has left. */
  hangUp(): void;
  /** The response begins after this many ms. */
  afterMs?: number;
  /** Returns what the caller of a stream reads while it waits; called before each comment. */
  progress?(): Promise<string>;
}

/** Returns after how many ms the response starts, by the limits that came with the request. */
export function beginAfterMs(limitsMs: readonly (number | undefined)[]): number {
  const shortest = Math.min(...limitsMs.map((limit) => limit ?? Number.POSITIVE_INFINITY));
  return shortest > SHORT_LIMIT_MS ? BEGIN_AFTER_MS : Math.max(BEGIN_AFTER_MS, shortest + MARGIN_MS);
}

/**
 * Returns the answer itself when it comes soon, else a response with status 200 that begins now and whose body
 * follows: a stream begins with comments, JSON with blanks, which may stand before any value. Something is written every
 * second: callers read how long they wait, connections with a limit for silence stay, and the next write fails where a
 * caller has left unseen: its machine vanished, or the host is Cloudflare, which does not report an orderly close
 * (docs/decisions/early-responses.md).
 *
 * An error after that is the only event of a stream. JSON has no such place: the gateway writes the error as the body
 * and breaks the connection before the body ends. So no client takes a 200 with an error in it for an answer, clients
 * try again, and a person who reads the body finds the cause.
 */
export async function respondEarly(answered: Promise<Response>, parts: EarlyParts): Promise<Response> {
  const soon = await within(answered, parts.afterMs ?? BEGIN_AFTER_MS, parts.timers);
  if (soon) return soon;
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const told = answered.catch((error: unknown) => {
    return errorResponse(toHttpError(error, parts.errorOf.requestId), parts.errorOf);
  });
  // A write that fails shows that the caller has left.
  void writeLate(writable, told, parts).catch(() => parts.hangUp());
  const form = parts.kind === 'events' ? EVENT_STREAM : { 'content-type': 'application/json', ...UNBUFFERED };
  return new Response(readable, { status: 200, headers: { ...form, ...parts.headers } });
}

async function writeLate(
  writable: WritableStream<Uint8Array>,
  answered: Promise<Response>,
  parts: EarlyParts,
): Promise<void> {
  const writer = writable.getWriter();
  let response: Response | null = null;
  while (!response) {
    await writer.write(await sign(parts));
    response = await within(answered, WRITE_EVERY_MS, parts.timers);
  }
  if (!response.ok) return await writeError(writer, response, parts);
  if (parts.kind === 'events' && response.body) await writeFirst(writer, response.body);
  writer.releaseLock();
  if (response.body) await response.body.pipeTo(writable);
  else await writable.close();
}

/** Writes the first bytes of the body after the comments; the rest of the stream follows. */
async function writeFirst(
  writer: WritableStreamDefaultWriter<Uint8Array>,
  body: ReadableStream<Uint8Array>,
): Promise<void> {
  const reader = body.getReader();
  const { value } = await reader.read().catch(async (error: unknown) => {
    await writer.abort(error);
    throw error;
  });
  reader.releaseLock();
  if (value) await writer.write(behindComment(value));
}

async function sign({ kind, progress }: EarlyParts): Promise<Uint8Array> {
  if (kind === 'json') return BLANK;
  return encoder.encode(`: ${(await progress?.()) ?? 'waiting'}\n\n`);
}

async function writeError(
  writer: WritableStreamDefaultWriter<Uint8Array>,
  response: Response,
  { kind, errorOf: { dialect, requestId }, timers }: EarlyParts,
): Promise<void> {
  const { status } = response;
  const text = await response.text();
  if (kind === 'events') {
    const events = encoder.encode(errorEvents(readApiError(status, text), dialect, requestId));
    await writer.write(behindComment(events));
    await writer.close();
  } else {
    await writer.write(encoder.encode(text));
    await new Promise<void>((done) => timers.setTimeout(done, BEFORE_BREAK_MS));
    await writer.abort(brokenOff(`the answer came late and is an error (${status})`));
  }
}

/** Returns the promise's value, or null when it takes longer than `ms`. */
export function within<T>(promise: Promise<T>, ms: number, timers: Timers): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const timer = timers.setTimeout(() => resolve(null), ms) as never;
    promise.then(
      (value) => {
        timers.clearTimeout(timer);
        resolve(value);
      },
      (error) => {
        timers.clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/** The places that callers are told may be this many ms old. */
const FRESH_MS = 900;

/** The gateway remembers at most this many queues, since callers make queues by naming them. */
const MOST_QUEUES = 1000;

/** The newest answer of each queue; it is data alone, which requests may share. */
const known = new Map<string, { askedAt: number; places: ReadonlyMap<string, string> }>();

/**
 * Returns what the gateway tells a waiting caller: its place in the line for its model, or how far the start of a
 * worker is. It asks the queue once a second for all callers of this gateway together.
 * @param ask returns the jobs that wait, as the queue answers `waitingLines`
 * @param now epoch ms
 */
export async function waitingPlace(
  queueId: string,
  jobId: string,
  ask: () => Promise<WaitingLineView[]>,
  now: () => number,
): Promise<string> {
  const before = known.get(queueId);
  if (before === undefined || now() - before.askedAt >= FRESH_MS) {
    const places = before?.places ?? new Map();
    if (known.size >= MOST_QUEUES) known.clear();
    // Callers that ask meanwhile get the previous answer.
    known.set(queueId, { askedAt: now(), places });
    // A queue that restarts now answers the next call.
    const lines = await ask().catch(() => null);
    if (lines !== null) known.set(queueId, { askedAt: now(), places: placesIn(lines) });
  }
  return known.get(queueId)?.places.get(jobId) ?? 'waiting';
}

function placesIn(lines: WaitingLineView[]): Map<string, string> {
  return new Map(
    lines.flatMap(({ job_ids, start }) =>
      job_ids.map((id, index) => {
        const place = `place ${index + 1} of ${job_ids.length}`;
        return [id, start === null ? `waiting, ${place}` : `${start}; ${place}`] as const;
      }),
    ),
  );
}
