import { type FilteredRequest, FilterRefusal, filterAnswer, filterRequest } from '../../asking/filters.ts';
import type { Env } from '../env.ts';
import { type ErrorOf, errorResponse, HttpError } from '../errors.ts';
import { callQueue } from '../objects/calls.ts';

/** A request as filters know it, with what they say of it. */
export class AskedRequest implements FilteredRequest {
  readonly road: FilteredRequest['road'];
  readonly queueId: string;
  readonly jobId: string;
  readonly tenant: string | null;
  readonly tokenName: string | null;
  readonly keep: boolean | null;
  readonly path: string | null;
  readonly model: string | null;
  readonly contentType: string | null;
  readonly requestId: string;
  readonly responseId: string | null;
  readonly #env: Env;
  /** The sentences that the request is submitted with; null: it is submitted, and the queue is told later ones. */
  #notes: string[] | null = [];

  constructor(
    env: Env,
    facts: Omit<FilteredRequest, 'note' | 'responseId'> & { responseId?: string | undefined },
  ) {
    this.#env = env;
    this.road = facts.road;
    this.queueId = facts.queueId;
    this.jobId = facts.jobId;
    this.tenant = facts.tenant;
    this.tokenName = facts.tokenName;
    this.keep = facts.keep;
    this.path = facts.path;
    this.model = facts.model;
    this.contentType = facts.contentType;
    this.requestId = facts.requestId;
    this.responseId = facts.responseId ?? null;
  }

  note(text: string): void {
    if (this.#notes !== null) return void this.#notes.push(text);
    // A ledger that lacks a sentence is no reason for an answer to fail.
    void callQueue(this.#env, this.queueId, (queue) => queue.note(this.jobId, text)).catch(() => {});
  }

  /** Returns what the request is submitted with. What is said from now on goes to the queue. */
  takeNotes(): { notes?: readonly string[] } {
    const notes = this.#notes ?? [];
    this.#notes = null;
    return notes.length === 0 ? {} : { notes };
  }
}

/** Has the filters of a queue look at a body. @returns the body to send instead; null: it stays @throws HttpError */
export async function filteredBody(
  { filters = [] }: Env,
  asked: FilteredRequest,
  body: Uint8Array,
): Promise<Uint8Array<ArrayBuffer> | null> {
  if (body.byteLength === 0) return null;
  try {
    return await filterRequest(filters, asked, body);
  } catch (error) {
    throw error instanceof FilterRefusal ? refused(error) : error;
  }
}

/** Has the filters of a queue look at an answer. One that they refuse becomes an error, in the form of its API. */
export async function filteredAnswer(
  { filters = [] }: Env,
  response: Response,
  asked: FilteredRequest,
  errorOf: ErrorOf,
): Promise<Response> {
  try {
    return await filterAnswer(filters, response, asked);
  } catch (error) {
    if (!(error instanceof FilterRefusal)) throw error;
    const refusal = errorResponse(refused(error), errorOf);
    refusal.headers.set('x-job-id', asked.jobId);
    return refusal;
  }
}

function refused({ status, message, code }: FilterRefusal): HttpError {
  return new HttpError(status, message, code);
}
