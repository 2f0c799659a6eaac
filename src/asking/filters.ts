import type { Failure, JobRef } from '../protocol/index.ts';

/**
 * A seam of features that look at what engines are asked and what they answer, or change it: hooks, records of
 * requests. Filters run where the gateway and the objects run, never in a worker: a rented machine knows of none.
 *
 * A host makes the filters of its queue once (`filtersOf` in features/filters.ts) and hands them to the gateway and the
 * objects; a queue without any takes the shortest way. They run in their order, each on what the one before left.
 */
export interface Filter {
  /**
   * Looks at the body that an engine is about to be sent, before anything else is read of it. Every road calls this
   * once for each request: live requests, stored jobs however they are submitted, lines of batches, responses.
   * @returns the body to send instead; null: it stays
   * @throws FilterRefusal
   */
  request?(asked: FilteredRequest, body: Uint8Array): Promise<Uint8Array<ArrayBuffer> | null>;
  /**
   * Looks at an answer on its way to a caller: that of a live request, or of a stored job that is read while it is
   * made. The response is whole or a stream of events, and may be an error of the engine or of the queue.
   * @throws FilterRefusal
   */
  answer?(response: Response, asked: FilteredRequest): Promise<Response>;
  /**
   * Looks at the result with which a stored job is about to succeed. The result is stored, told and posted as this
   * leaves it. A process that ends meanwhile forgets nothing: the worker sends the result again, and this is called
   * again.
   * @returns the result to store instead; null: it stays
   * @throws FilterRefusal, with which the job fails; FilterOutage: this is called again for some time before it does
   */
  settled?(result: Result, job: SettlingJob): Promise<Result | null>;
  /**
   * Learns that a filter refused a request, or the whole answer to a live one. The caller is answered after this.
   * @param body the request as the filters before the refusal left it; null: it was passed on, and `request` had it
   */
  refused?(refusal: FilterRefusal, asked: FilteredRequest, body: Uint8Array | null): Promise<void>;
  /** Learns that a stored job which a worker had was not to succeed, once that is on disk. */
  ended?(ended: Ended, job: SettlingJob): Promise<void>;
  /** Returns what the filter has counted in this process, for `/metrics`. */
  families?(): FilterFamily[];
}

/** A family of metrics, as gateway/metrics/exposition.ts writes it. */
export interface FilterFamily {
  /** The family's name without the prefix. */
  name: string;
  type: 'counter' | 'histogram';
  help: string;
  samples: { labels: Record<string, string>; value: number; suffix?: string }[];
}

/** The `result` of a `job_result` frame. */
export type Result = Record<string, unknown>;

/** The end of a stored job that did not succeed. */
export interface Ended {
  state: 'failed' | 'cancelled' | 'expired';
  error: Failure;
}

/** A request to an engine as filters know it. `request` and `answer` of one live request get the same object. */
export interface FilteredRequest {
  /** `live`: its caller waits; `job`: it is stored. */
  readonly road: 'live' | 'job';
  readonly queueId: string;
  /** The id of its job. */
  readonly jobId: string;
  /** Null where no tokens are configured. */
  readonly tenant: string | null;
  /** The name of its token; null where no tokens are configured. */
  readonly tokenName: string | null;
  /** True if its token wanted it kept with its answer when it came (docs/kept-requests.md); null: it said nothing. */
  readonly keep: boolean | null;
  /** The path on the engine, without a query; null: the payload of a job says it in no form that is known here. */
  readonly path: string | null;
  /** The model as the caller named it; null: it names none. */
  readonly model: string | null;
  /** The content type of the body; null: JSON. */
  readonly contentType: string | null;
  /** The id by which the caller finds the request again. */
  readonly requestId: string;
  /** The id that the queue gives the response in place of the engine's; null: it gives none. */
  readonly responseId: string | null;
  /** Writes a sentence into the ledger of the job. */
  note(text: string): void;
}

/** A stored job whose result has come, or that has ended without one. */
export interface SettlingJob
  extends Omit<FilteredRequest, 'road' | 'contentType' | 'path' | 'requestId' | 'responseId'> {
  readonly jobType: string;
  /** The token of the attempt, by which a repeated settlement is known. */
  readonly fenceToken: JobRef['fence_token'];
  /** Returns the job's payload, JSON of an object; null: it is gone. */
  payload(): Promise<string | null>;
}

/** Refuses a request or an answer. Its message and code are the caller's. */
export class FilterRefusal extends Error {
  override name = 'FilterRefusal';
  /** The status of the error that a caller gets who waits. */
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Refuses what a filter cannot look at now, and may look at later. */
export class FilterOutage extends FilterRefusal {
  override name = 'FilterOutage';
}

/** Has all filters look at a body. @returns the body to send instead; null: it stays @throws FilterRefusal */
export async function filterRequest(
  filters: readonly Filter[],
  asked: FilteredRequest,
  body: Uint8Array,
): Promise<Uint8Array<ArrayBuffer> | null> {
  let changed: Uint8Array<ArrayBuffer> | null = null;
  try {
    for (const filter of filters) changed = (await filter.request?.(asked, changed ?? body)) ?? changed;
    return changed;
  } catch (error) {
    await tellRefused(filters, error, asked, changed ?? body);
    throw error;
  }
}

/** Has all filters look at an answer. @throws FilterRefusal */
export async function filterAnswer(
  filters: readonly Filter[],
  response: Response,
  asked: FilteredRequest,
): Promise<Response> {
  let passed = response;
  try {
    for (const filter of filters) passed = (await filter.answer?.(passed, asked)) ?? passed;
    return passed;
  } catch (error) {
    await tellRefused(filters, error, asked, null);
    throw error;
  }
}

async function tellRefused(
  filters: readonly Filter[],
  error: unknown,
  asked: FilteredRequest,
  body: Uint8Array | null,
): Promise<void> {
  if (!(error instanceof FilterRefusal)) return;
  await Promise.all(filters.map((filter) => filter.refused?.(error, asked, body)));
}

/** Has all filters look at a result. @returns the result to store instead; null: it stays @throws FilterRefusal */
export async function filterSettled(
  filters: readonly Filter[],
  result: Result,
  job: SettlingJob,
): Promise<Result | null> {
  let changed: Result | null = null;
  for (const filter of filters) changed = (await filter.settled?.(changed ?? result, job)) ?? changed;
  return changed;
}
