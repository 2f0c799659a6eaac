import {
  type Ended,
  type Filter,
  FilterOutage,
  FilterRefusal,
  filterSettled,
  type Result,
  type SettlingJob,
} from '../../asking/filters.ts';
import { onceMore } from '../../asking/once-more.ts';
import type { CallsOf } from '../../durable/calls.ts';
import type { ObjectHost } from '../../durable/host.ts';
import type { FileObject } from '../../files/object.ts';
import { doubling } from '../../process/backoff.ts';
import {
  type JobError,
  type JobResult,
  type JobResultRef,
  keepTree,
  type Parsed,
  parseJsonBytes,
  type WorkerFrame,
} from '../../protocol/index.ts';
import { usageIn } from '../attempts/account.ts';
import type { StoredJob } from '../job.ts';
import type { Contents } from '../rpc.ts';
import type { SettlingFacts } from '../views/jobs.ts';

type Settled = JobResult | JobResultRef;

interface FilteredResultPorts extends Pick<ObjectHost, 'now' | 'after' | 'log'> {
  filters: readonly Filter[];
  queueId: string;
  /** Returns a stub of the object of files, a new one for each try. */
  files(): Pick<CallsOf<FileObject>, 'content'>;
  /** Returns the payload of a job; null: it is gone. */
  payload(jobId: string): Contents | null;
  /** Writes a sentence into the ledger of a job. */
  note(jobId: string, text: string): void;
}

/** The levels of a result that keep their JSON, as the gateway reads it (gateway/jobs/job-files.ts). */
const RESULT_LEVELS = 2;

/** A result that its filters cannot look at waits this long before its job fails, ms (docs/hooks.md). */
const PATIENCE_MS = 120_000;
/** They are asked again after pauses that double from the first to the longest, ms. */
const PAUSE_MS = { first: 1000, longest: 15_000 };

/** A result that the filters of a queue look at. */
interface Filtering {
  /** Resolves with the frame that settles the job: with the result as they leave it, or an error if they refuse it. */
  settled: Promise<Settled | JobError>;
  /** Resolves when the result begins to wait for filters that cannot look at it. */
  waits: Promise<void>;
}

/** Has the filters of a queue look at the results of stored jobs, before the rules know of them, and at other ends. */
export class FilteredResults {
  readonly #ports: FilteredResultPorts;
  /** The results that filters look at, by the attempt and its worker. */
  readonly #filtering = new Map<string, Filtering>();

  constructor(ports: FilteredResultPorts) {
    this.#ports = ports;
  }

  /** Returns the frame if it reports the result of a job; null: it does not. */
  in(frame: Parsed<WorkerFrame>): Settled | null {
    if (!frame.ok) return null;
    const { value } = frame;
    return value.type === 'job_result' || value.type === 'job_result_ref' ? value : null;
  }

  /**
   * Shows a result to the filters. A worker that sends it again meanwhile gets the verdict on the first.
   * @param workerId the worker that sent the frame; undefined: it has not registered yet
   * @param isWanted whether the result still settles its job
   */
  filter(
    frame: Settled,
    facts: SettlingFacts,
    workerId: string | undefined,
    isWanted: () => boolean,
  ): Filtering {
    const key = JSON.stringify([workerId, frame.job_id, frame.fence_token]);
    const known = workerId === undefined ? undefined : this.#filtering.get(key);
    if (known) return known;
    const { promise: waits, resolve: wait } = Promise.withResolvers<void>();
    const settled = this.#filter(frame, facts, isWanted, wait);
    const filtering = { settled, waits };
    if (workerId !== undefined) {
      this.#filtering.set(key, filtering);
      void settled.finally(() => this.#filtering.delete(key));
    }
    return filtering;
  }

  async #filter(
    frame: Settled,
    facts: SettlingFacts,
    isWanted: () => boolean,
    wait: () => void,
  ): Promise<Settled | JobError> {
    const { job_id } = frame;
    try {
      const result = frame.type === 'job_result' ? frame.result : await this.#inFile(facts.result_file);
      // The rules say what such a frame means.
      if (result === null) return frame;
      const changed = await this.#patiently(result, this.#jobOf(frame, facts), isWanted, wait);
      if (changed === null) return frame;
      const { job_id, fence_token, timing, account, usage = usageIn(result) } = frame;
      return { type: 'job_result', job_id, fence_token, result: changed, timing, usage, account };
    } catch (error) {
      if (error instanceof FilterRefusal) return { ...errorFor(frame, error), http_status: error.status };
      const { message = String(error), stack } = error as Partial<Error>;
      this.#ports.log('error', 'a result could not be filtered', { job_id, error: stack ?? message });
      const why = 'The result could not be looked at before it was stored; the log of the queue says why.';
      return errorFor(frame, { message: why, code: 'filter_failed' }, true);
    }
  }

  /**
   * Has all filters look at a result, again and again while they cannot.
   * @throws FilterRefusal; FilterOutage when PATIENCE_MS are over, or nobody wants the result any more
   */
  async #patiently(
    result: Result,
    job: SettlingJob,
    isWanted: () => boolean,
    wait: () => void,
  ): Promise<Result | null> {
    const { filters, now, after } = this.#ports;
    const endsAt = now() + PATIENCE_MS;
    for (let failures = 1; ; failures += 1) {
      try {
        return await filterSettled(filters, result, job);
      } catch (error) {
        if (!(error instanceof FilterOutage)) throw error;
        const leftMs = endsAt - now();
        if (leftMs <= 0) job.note(`the result was kept back ${failures} times, and its job fails`);
        if (leftMs <= 0 || !isWanted()) throw error;
        job.note(`the result waits, for at most ${PATIENCE_MS / 1000} s`);
        wait();
        const pauseMs = Math.min(leftMs, doubling(PAUSE_MS.first, PAUSE_MS.longest, failures));
        await new Promise<void>((resolve) => after(pauseMs, resolve));
        if (!isWanted()) throw error;
      }
    }
  }

  /** Tells the filters that a job has ended without success. It never fails. */
  async ended(job: StoredJob, ended: Ended): Promise<void> {
    const { id: job_id, fence_token } = job;
    const told = this.#jobOf({ job_id, fence_token }, job);
    for (const filter of this.#ports.filters)
      await filter.ended?.(ended, told).catch((error: unknown) => {
        this.#ports.log('warn', 'a filter was not told of the end of a job', {
          job_id,
          error: String(error),
        });
      });
  }

  #jobOf(
    { job_id, fence_token }: Pick<Settled, 'job_id' | 'fence_token'>,
    { job_type, tenant, token_name, model, extras }: Omit<SettlingFacts, 'result_file'>,
  ) {
    const { queueId, note } = this.#ports;
    const noted = new Set<string>();
    return {
      queueId,
      jobId: job_id,
      jobType: job_type,
      fenceToken: fence_token,
      tenant,
      tokenName: token_name,
      keep: extras.keep ?? null,
      model,
      payload: async () => {
        const contents = this.#ports.payload(job_id);
        if (contents === null || 'text' in contents) return contents?.text ?? null;
        const bytes = await this.#bytesOf(contents.file);
        return bytes && new TextDecoder().decode(bytes);
      },
      note: (text: string) => {
        // Each try of an outage says the same.
        if (!noted.has(text)) note(job_id, text);
        noted.add(text);
      },
    };
  }

  async #inFile(file: string | null): Promise<Result | null> {
    const bytes = file === null ? null : await this.#bytesOf(file);
    if (bytes === null) return null;
    const result = parseJsonBytes(bytes) as Result;
    keepTree(result, bytes, RESULT_LEVELS);
    return result;
  }

  /** @throws Error where the file cannot be read at the moment */
  async #bytesOf(file: string): Promise<Uint8Array<ArrayBuffer> | null> {
    const response = await onceMore(() => this.#ports.files().content(file));
    if (response.ok) return new Uint8Array(await response.arrayBuffer());
    await response.body?.cancel();
    if (response.status === 404) return null;
    throw new Error(`the file ${file} cannot be read: the object of files answered ${response.status}`);
  }
}

/** Returns the frame that fails an attempt in place of its result. */
function errorFor(
  { job_id, fence_token, timing, account, usage }: Settled,
  { message, code }: Pick<FilterRefusal, 'message' | 'code'>,
  retryable = false,
): JobError {
  return {
    type: 'job_error',
    ...{ job_id, fence_token, error: message, code, retryable, timing, account, usage },
  };
}
