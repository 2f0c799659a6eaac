import type {
  Ended,
  Filter,
  FilteredRequest,
  FilterRefusal,
  Result,
  SettlingJob,
} from '../../asking/filters.ts';
import type { Objects } from '../../asking/objects.ts';
import { onceMore } from '../../asking/once-more.ts';
import type { Log } from '../../durable/host.ts';
import { HttpError } from '../../gateway/errors.ts';
import { answerFromResult } from '../../gateway/inference/respond.ts';
import { readFacts } from '../../gateway/jobs/submissions.ts';
import { runpodOutput } from '../../protocol/index.ts';
import type { QueueSettingBindings } from '../../settings/queue-settings.ts';
import { HeldBodies } from './held-bodies.ts';
import { type Content, type Failed, recordOf, type Seen } from './record.ts';
import { seen } from './seen-body.ts';
import { isKept, keptShare } from './settings.ts';

/** The most bytes of a request, and of an answer, that a record holds; what is longer is cut. */
const MOST_BYTES = 4 * 1024 * 1024;
/** An answer waits at most this long, ms, until its record is stored. */
const PATIENCE_MS = 5000;
/** The log says at most this often that records are lost, ms. */
const SAID_AGAIN_MS = 60_000;

const JSON_TYPE = 'application/json';

/** The parts that the filter works with. */
interface Parts {
  settings: QueueSettingBindings;
  objects: Objects;
  log: Log;
}

/** Makes the filter that keeps requests and answers, as the filters before it leave them; null: none are kept. */
export function keptRequests(parts: Parts): Filter | null {
  const share = keptShare(parts.settings);
  return share === null ? null : new Keeper(parts, share);
}

class Keeper implements Filter {
  readonly #parts: Parts;
  readonly #share: number;
  readonly #bodies = new HeldBodies(MOST_BYTES);
  /** The records that were lost since the log said so. */
  #lost = 0;
  #saidAt = Number.NEGATIVE_INFINITY;

  constructor(parts: Parts, share: number) {
    this.#parts = parts;
    this.#share = share;
  }

  /** Holds the body of a live request until its answer is over. */
  async request(asked: FilteredRequest, body: Uint8Array): Promise<null> {
    if (asked.road === 'job' || body.byteLength === 0 || !isKept(asked, this.#share)) return null;
    if (!this.#bodies.hold(asked, body, Date.now())) this.#losing('too much is held at once');
    return null;
  }

  /** Keeps a live request once its answer is over. Stored jobs are kept when they settle, whoever reads them before. */
  async answer(response: Response, asked: FilteredRequest): Promise<Response> {
    const held = this.#bodies.of(asked);
    if (held === null) return response;
    const { queueId, jobId, requestId, responseId, tenant, tokenName, path, model } = asked;
    const type = response.headers.get('content-type');
    const keep = async (output: Omit<Content, 'type'>, isWhole: boolean) => {
      await this.#keep({
        ...{ queueId, jobId, requestId, responseId, tenant, tokenName, path, model, isWhole },
        road: 'live',
        failed: null,
        startedAt: held.at,
        input: { type: asked.contentType, bytes: held.bytes, isCut: held.isCut },
        output: { type, ...output },
        status: response.status,
      });
      this.#bodies.release(asked);
    };
    if (response.body === null) {
      await keep({ bytes: new Uint8Array(), isCut: false }, true);
      return response;
    }
    const mayHold = (bytes: number) => this.#bodies.more(held, bytes);
    return new Response(seen(response.body, MOST_BYTES, mayHold, keep), response);
  }

  /** Keeps a stored job that is about to succeed. */
  async settled(result: Result, job: SettlingJob): Promise<null> {
    try {
      if (isKept(job, this.#share)) await this.#keepJob(result, job);
    } catch (error) {
      this.#losing(String(error));
    }
    return null;
  }

  /** Keeps a stored job that has failed, was cancelled or expired. */
  async ended({ state, error }: Ended, job: SettlingJob): Promise<void> {
    if (!isKept(job, this.#share)) return;
    const { code, message, http_status: status = null, body } = error;
    const answer = encode(body ?? { error: { message, code } });
    const failed = { outcome: state, type: code };
    await this.#keepEnd(job, { bytes: answer, type: JSON_TYPE, status, failed });
  }

  /**
   * Keeps a request that a hook refused. One that found its hook out of order was not looked at, so that nothing of it
   * is kept, and its caller tries again.
   */
  async refused({ status, code, message }: FilterRefusal, asked: FilteredRequest, body: Uint8Array | null) {
    const held = this.#bodies.of(asked);
    this.#bodies.release(asked);
    const input = body === null ? held : cut(body);
    if (status >= 500 || input === null || !isKept(asked, this.#share)) return;
    const { road, queueId, jobId, requestId, responseId, tenant, tokenName, path, model, contentType } =
      asked;
    await this.#keep({
      ...{ road, queueId, jobId, requestId, responseId, tenant, tokenName, path, model, status },
      startedAt: held?.at ?? Date.now(),
      input: { type: contentType, bytes: input.bytes, isCut: input.isCut },
      output: { type: JSON_TYPE, bytes: encode({ error: { message, code } }), isCut: false },
      isWhole: true,
      failed: { outcome: 'refused', type: code },
    });
  }

  async #keepJob(result: Result, job: SettlingJob): Promise<void> {
    await this.#keepEnd(job, { ...(await answerOf(job.jobType, result)), failed: null });
  }

  async #keepEnd(
    job: SettlingJob,
    { bytes, type, status, failed }: Answer & { failed: Failed | null },
  ): Promise<void> {
    const { queueId, jobId, tenant, tokenName } = job;
    const payload = (await job.payload()) ?? '{}';
    const facts = readFacts(job.jobType, payload);
    const asked = facts instanceof HttpError ? null : facts.request;
    await this.#keep({
      ...{
        queueId,
        jobId,
        requestId: jobId,
        responseId: null,
        tenant,
        tokenName,
        status,
        failed,
        model: job.model,
      },
      road: 'job',
      path: asked?.path ?? null,
      startedAt: null,
      input: { type: asked?.contentType ?? null, ...cut(asked?.body ?? new TextEncoder().encode(payload)) },
      output: { type, ...cut(bytes) },
      isWhole: true,
    });
  }

  /** Stores a record. It never fails; the caller waits for it, so that whoever has the whole answer finds the record. */
  async #keep(
    seen: Omit<Seen, 'workerId' | 'startedAt' | 'endedAt'> & { startedAt: number | null },
  ): Promise<void> {
    const { objects } = this.#parts;
    const { queueId, jobId } = seen;
    const store = async () => {
      const endedAt = Date.now();
      // The queue knows the course of both kinds of jobs.
      // A request that was refused before it was submitted may bear the id of another job.
      const hasJob = seen.failed?.outcome !== 'refused' || seen.road === 'live';
      const ledger = hasJob
        ? await onceMore(() => objects.queue(queueId).ledger(jobId, null)).catch(() => null)
        : null;
      const steps = ledger?.steps ?? [];
      const workerId = steps.findLast(({ worker_id }) => worker_id !== null)?.worker_id ?? null;
      const startedAt = seen.startedAt ?? (steps[0] ? Date.parse(steps[0].at) : endedAt);
      const record = recordOf({ ...seen, workerId, startedAt, endedAt });
      await onceMore(() => objects.keptRequests(queueId).add(record));
    };
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error('the record is not stored in time')), PATIENCE_MS);
    try {
      await Promise.race([store(), late.promise]);
    } catch (error) {
      this.#losing(String((error as Error)?.message ?? error));
    } finally {
      clearTimeout(timer);
    }
  }

  /** Says in the log that records are lost, at most once a minute. */
  #losing(why: string): void {
    this.#lost += 1;
    if (Date.now() - this.#saidAt < SAID_AGAIN_MS) return;
    this.#saidAt = Date.now();
    this.#parts.log('warn', 'requests are not kept', { records: this.#lost, error: why });
    this.#lost = 0;
  }
}

function cut(bytes: Uint8Array): Omit<Content, 'type'> {
  return { bytes: bytes.subarray(0, MOST_BYTES), isCut: bytes.byteLength > MOST_BYTES };
}

const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

/** The answer of a stored job. `status`: null if no engine gave one. */
interface Answer {
  bytes: Uint8Array;
  type: string | null;
  status: number | null;
}

/** Returns the answer that the result of a stored job holds, as a caller who waits would get it. */
async function answerOf(jobType: string, result: Result): Promise<Answer> {
  if (jobType === 'runpod') {
    const output = runpodOutput(result);
    // A worker yields a stream as pieces of its text, and an answer in one piece as the only piece of its output.
    if (output.length > 0 && output.every((piece) => typeof piece === 'string')) {
      const text = output.join('');
      const type = text.startsWith('data:') ? 'text/event-stream' : 'text/plain';
      return { bytes: new TextEncoder().encode(text), type, status: 200 };
    }
    return { bytes: encode(output.length === 1 ? output[0] : output), type: JSON_TYPE, status: 200 };
  }
  const facts = { model: null, stream: false, includeUsage: false };
  const response = answerFromResult(result, facts, Math.floor(Date.now() / 1000));
  if (response === null) return { bytes: encode(result), type: JSON_TYPE, status: 200 };
  const bytes = new Uint8Array(await response.arrayBuffer());
  return { bytes, type: response.headers.get('content-type'), status: response.status };
}
