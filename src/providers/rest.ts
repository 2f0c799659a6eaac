import type * as z from 'zod';
import { type Clock, sleep, withTimeout } from '../process/clock.ts';
import { headerProblem } from '../process/environment.ts';
import { UserError } from '../process/exit-codes.ts';
import { reasonOf } from '../process/http.ts';
import { fieldsOf, jsonOrText } from '../protocol/fields.ts';
import { schemaWords } from '../protocol/schema-words.ts';
import type { LaunchOutcome } from '../scheduler/rpc.ts';
import type { DriverPorts } from './driver.ts';

/** The time limit for all requests of one call of a driver, ms. */
export const CALL_LIMIT_MS = 30_000;
/**
 * The time limit of a single request, ms; the driver uses the rest of the call's time to look by name for its outcome.
 */
const REQUEST_LIMIT_MS = 20_000;
const SHOWN_CHARACTERS = 500;
/** The most bytes of an answer: room for lists of some ten thousand machines. */
const MOST_ANSWER_BYTES = 32 * 1024 * 1024;

export interface Answer {
  status: number;
  headers: Headers;
  /** The answer's value if it is JSON, else its text. */
  body: unknown;
}

export interface RestRequest {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  path: string;
  body?: unknown;
  pace: Pace;
  /** When the driver's call ends, epoch ms. */
  until: number;
  /**
   * Returns whether a 429 says that a quota is used up, so that no wait within the call helps. If left out, no 429 says
   * so.
   */
  isUsedUp?(answer: Answer): boolean;
}

/**
 * The error when nobody knows whether the provider has carried the call out: it did not answer, or its answer does not
 * show it. The message is for the operator.
 */
export class NoAnswerError extends Error {}

/** The error when the provider takes no more requests for now, so that this request was not sent. */
class NotSentError extends NoAnswerError {}

/** Calls one provider's HTTP interface. It waits after an answer of 429; the caller judges every other answer. */
export class RestApi {
  readonly provider: string;
  readonly #ports: DriverPorts;
  readonly #url: string;
  readonly #headers: Record<string, string>;

  constructor(ports: DriverPorts, api: { provider: string; url: string; token: string }) {
    this.provider = api.provider;
    this.#ports = ports;
    this.#url = api.url.replace(/\/+$/, '');
    this.#headers = { authorization: `Bearer ${api.token}`, accept: 'application/json' };
  }

  /** Sends a request. @throws NoAnswerError when no answer came in time, NotSentError when it could not be sent */
  async ask(request: RestRequest): Promise<Answer> {
    const { method, path, pace, until } = request;
    while (true) {
      if (!(await pace.turn(until))) {
        throw new NotSentError(
          `${this.provider} takes no more requests for now (rate limit): ${method} ${shownPath(path)} was not sent`,
        );
      }
      const answer = await this.#send(request);
      const holdMs = holdOf(answer) ?? (answer.status === 429 ? pace.penaltyMs : null);
      if (holdMs !== null) pace.hold(holdMs);
      if (answer.status !== 429 || request.isUsedUp?.(answer)) return answer;
      if (this.#ports.clock.now() + (holdMs ?? 0) > until) return answer;
    }
  }

  async #send({ method, path, body, until }: RestRequest): Promise<Answer> {
    const { clock, fetch } = this.#ports;
    const limitMs = Math.min(REQUEST_LIMIT_MS, Math.max(1000, until - clock.now()));
    const headers = {
      ...this.#headers,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    };
    try {
      return await withTimeout(clock, limitMs, async (signal) => {
        const init = {
          method,
          headers,
          signal,
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        };
        const response = await fetch(`${this.#url}${path}`, init);
        return {
          status: response.status,
          headers: response.headers,
          body: jsonOrText(await textOf(response)),
        };
      });
    } catch (error) {
      throw new NoAnswerError(
        `${this.provider} did not answer ${method} ${shownPath(path)}: ${reasonOf(error)}`,
      );
    }
  }

  /**
   * Returns the body of a 2xx answer in the form that the driver knows.
   * @throws NoAnswerError for any other answer
   */
  read<Schema extends z.ZodType>(what: string, answer: Answer, schema: Schema): z.output<Schema> {
    if (answer.status < 200 || answer.status > 299) throw new NoAnswerError(this.said(what, answer));
    const read = schema.safeParse(answer.body, { error: schemaWords });
    if (read.success) return read.data;
    const [issue] = read.error.issues;
    const where = issue?.path.join('.') || 'the answer';
    throw new NoAnswerError(
      `${this.provider} answered ${what} in a form that this version does not know (${where}: ${issue?.message})`,
    );
  }

  /** Writes the provider's answer for people. */
  said(what: string, { status, body }: Answer): string {
    const words = wordsOf(body).slice(0, SHOWN_CHARACTERS);
    return `${this.provider} answered ${what} with ${status}${words ? `: ${words}` : ''}`;
  }
}

/**
 * Returns a provider's key.
 * @param what the key is for, in words of a message
 * @throws UserError when the variable is not set, or holds what no header can
 */
export function keyOf({ env }: DriverPorts, variable: string, what: string): string {
  const key = env[variable]?.trim();
  if (!key) throw new UserError(`${variable} is not set: it holds ${what}`);
  const problem = headerProblem(key);
  if (problem !== null) throw new UserError(`${variable} cannot be sent: ${problem}`);
  return key;
}

/** Returns a driver's outcome for an error that leaves the effect unknown. @throws any other error */
export function unknownFrom(error: unknown): LaunchOutcome {
  if (error instanceof NoAnswerError) return { kind: 'unknown', detail: error.message };
  throw error;
}

/** Reads a body. @throws Error when the text is longer than any answer that a driver needs */
async function textOf({ body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  // Leaving the loop cancels the rest of the body.
  for await (const piece of body ?? []) {
    bytes += piece.length;
    if (bytes > MOST_ANSWER_BYTES) throw new Error(`the answer is longer than ${MOST_ANSWER_BYTES} bytes`);
    text += decoder.decode(piece, { stream: true });
  }
  return text + decoder.decode();
}

const SAID_IN = ['detail', 'msg', 'message', 'error', 'title'];

function wordsOf(body: unknown): string {
  if (typeof body === 'string') return body.trim();
  const fields = fieldsOf(body);
  const words = SAID_IN.map((name) => fields[name]).find((value) => value);
  const faults = Array.isArray(fields.errors) ? fields.errors : [];
  return [words, ...faults]
    .filter((one) => one !== undefined)
    .map(asText)
    .join('; ');
}

function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map(asText).join('; ');
  return asText(fieldsOf(value).msg ?? JSON.stringify(value));
}

/** Returns a path without its query: ids and filters are of no use in a message. */
function shownPath(path: string): string {
  return path.replace(/\?.*$/, '');
}

/** Returns how long the provider wants no requests, ms; null: it did not say. */
function holdOf({ headers }: Answer): number | null {
  const seconds = [retryAfterOf(headers), ...usedUpWindows(headers.get('ratelimit') ?? '')];
  const longest = Math.max(...seconds.filter((one) => one !== null && Number.isFinite(one)).map(Number), 0);
  return longest > 0 ? longest * 1000 : null;
}

function retryAfterOf(headers: Headers): number | null {
  const given = headers.get('retry-after');
  return given === null ? null : Number(given);
}

/**
 * Returns the windows with no request left, each as the seconds until it ends. The field is a list with one member for
 * each window, `"minute";r=0;t=12, "hour";r=2800;t=1812` (draft-ietf-httpapi-ratelimit-headers).
 */
function usedUpWindows(field: string): number[] {
  return field.split(',').flatMap((window) => {
    const left = /;\s*r=(\d+)/.exec(window)?.[1];
    const seconds = /;\s*t=(\d+)/.exec(window)?.[1];
    return left === '0' && seconds ? [Number(seconds)] : [];
  });
}

/**
 * The factor on a provider's interval: the provider measures where requests arrive, and two requests may arrive closer
 * together than they were sent.
 */
const MARGIN = 1.1;

/**
 * Spaces the requests to one endpoint: each follows the previous one, in their order, after at least an interval, and
 * none is sent before the provider takes requests again.
 */
export class Pace {
  /** The pause after a 429 that does not say how long to wait, ms. */
  readonly penaltyMs: number;
  readonly #clock: Clock;
  readonly #intervalMs: number;
  #nextAt = 0;
  #heldUntil = 0;

  constructor(clock: Clock, intervalMs: number, penaltyMs = 5000) {
    this.#clock = clock;
    this.penaltyMs = penaltyMs;
    this.#intervalMs = intervalMs * MARGIN;
  }

  /**
   * Waits for a request's turn.
   * @param until epoch ms
   * @returns false at once if the turn would come later than `until`
   */
  async turn(until: number): Promise<boolean> {
    while (true) {
      const now = this.#clock.now();
      const at = Math.max(now, this.#nextAt, this.#heldUntil);
      if (at > until) return false;
      this.#nextAt = at + this.#intervalMs;
      if (at > now) await sleep(this.#clock, at - now);
      // The answer to another request may have asked for a pause during this wait.
      if (this.#heldUntil <= this.#clock.now()) return true;
    }
  }

  /** Sends nothing for `ms`, since the provider takes nothing for that long. */
  hold(ms: number): void {
    this.#heldUntil = Math.max(this.#heldUntil, this.#clock.now() + ms);
  }
}

/** The number of looks by name after a create with an unknown outcome. */
const LOOKS = 3;

/**
 * Looks for a machine after its create did not get the expected answer.
 * @param find returns the machine of that name, or null if it is not listed; a look that fails counts as not listed
 * @param cause why the outcome of the create is unknown
 */
export async function lookAfter(
  clock: DriverPorts['clock'],
  pauseMs: number,
  cause: unknown,
  find: () => Promise<LaunchOutcome | null>,
): Promise<LaunchOutcome> {
  for (let look = 0; look < LOOKS && !(cause instanceof NotSentError); look++) {
    if (look > 0) await sleep(clock, pauseMs);
    const found = await find().catch(() => null);
    if (found) return found;
  }
  return unknownFrom(cause);
}
