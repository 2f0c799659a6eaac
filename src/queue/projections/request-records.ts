import {
  isNotable,
  RECORD_ERROR_CHARACTERS,
  type RequestOutcome,
  type RequestRecord,
} from '../../protocol/index.ts';
import type { JobEvent, OtherEvent } from '../events/event.ts';
import type { Projection } from '../events/projection.ts';
import { firstTokenAt, givenAt, submittedAt } from '../job.ts';
import type { FallBackCount } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { keyOf } from './usage.ts';

/**
 * A request is slow if its first token, or its slot where no first token is reported, takes longer than this many ms.
 */
const SLOW_MS = 2000;

/** The length of the window in which the rate is measured, ms. */
export const WINDOW_MS = 10_000;
/** Successful requests of one window that are all kept; above this number they are sampled. */
export const ORDINARY_A_WINDOW = 500;
/** Failed or slow requests of one window that are all kept: far more than a healthy queue has. */
const NOTABLE_A_WINDOW = 5000;
/** Records that are kept at least until the fleet object takes them; at twice this number the oldest are dropped. */
const MOST_RECORDS = 20_000;

/**
 * Decides which of many requests are kept: all of them up to a budget per window, and above it every second, fourth,
 * eighth … by the hash of the request's id. A second look at an id gets the same answer at the same rate, and what is
 * kept at a high rate is kept at any lower one.
 */
export class Sampler {
  readonly #budget: number;
  #window = 0;
  #seen = 0;
  #seenBefore = 0;

  /** @param budget requests of one window that are all kept */
  constructor(budget: number) {
    this.#budget = budget;
  }

  /** Decides whether to keep a request. @returns how many requests it stands for; 0 if it is not kept */
  keep(id: string, now: number): number {
    const window = Math.floor(now / WINDOW_MS);
    if (window !== this.#window) {
      this.#seenBefore = window === this.#window + 1 ? this.#seen : 0;
      this.#seen = 0;
      this.#window = window;
    }
    this.#seen += 1;
    const rate = Math.max(this.#seen, this.#seenBefore) / this.#budget;
    if (rate <= 1) return 1;
    const standsFor = 2 ** Math.min(31, Math.ceil(Math.log2(rate)));
    return hash(id) < 2 ** 32 / standsFor ? standsFor : 0;
  }
}

/** Keeps records of requests that have ended and that the fleet object does not know of yet, in memory alone. */
export class RequestRecords implements Projection {
  readonly #core: Core;
  readonly #ordinary = new Sampler(ORDINARY_A_WINDOW);
  readonly #notable = new Sampler(NOTABLE_A_WINDOW);
  #records: RequestRecord[] = [];
  /** Requests that ended at a fall-back since the object started, by alias and cause. */
  readonly #fallBacks = new Map<string, FallBackCount>();

  constructor(core: Core) {
    this.#core = core;
  }

  on(event: JobEvent): void {
    const outcome = outcomeOf(event);
    if (outcome === null) return;
    const { job, at } = event;
    const { requests } = this.#core;
    // The outcome is known only when the gateway has not asked again in time.
    if (requests.isUndecided(job.id)) {
      requests.noteUndecided(job.id, recordOf(this.#core, event, outcome, 1));
      return;
    }
    const { alias } = job.extras;
    if (alias?.fell) this.#countFallBack(alias.name, alias.fell);
    // A record is made only if it is kept, since a busy queue keeps few.
    const standsFor = this.#keep(job.id, isNotable({ outcome, is_slow: isSlow(event) }), at);
    if (standsFor > 0) this.#add(recordOf(this.#core, event, outcome, standsFor));
  }

  onOther(event: OtherEvent): void {
    if (event.kind !== 'decided' || event.record === undefined) return;
    const record = { ...event.record, outcome: event.outcome };
    if (record.alias && record.fallback) this.#countFallBack(record.alias, record.fallback);
    const standsFor = this.#keep(record.id, isNotable(record), this.#core.now());
    if (standsFor > 0) this.#add({ ...record, stands_for: standsFor });
  }

  /** Takes all records, oldest first. */
  take(): RequestRecord[] {
    const records = this.#records;
    if (records.length > 0) this.#records = [];
    return records;
  }

  erase({ id }: { id: string }): void {
    this.#records = this.#records.map((record) => (record.id === id ? { ...record, error: null } : record));
  }

  /** Returns how many requests ended at another model than their alias's first choice, since the object started. */
  fallBacks(): FallBackCount[] {
    return [...this.#fallBacks.values()];
  }

  #countFallBack(alias: string, cause: string): void {
    const key = `${alias}\0${cause}`;
    const { requests } = this.#fallBacks.get(key) ?? { requests: 0 };
    this.#fallBacks.set(key, { alias, cause, requests: requests + 1 });
  }

  /** Decides whether to keep a request's record. @returns what `Sampler.keep` returns */
  #keep(id: string, isWanted: boolean, now: number): number {
    return (isWanted ? this.#notable : this.#ordinary).keep(id, now);
  }

  #add(record: RequestRecord): void {
    this.#records.push(record);
    if (this.#records.length > 2 * MOST_RECORDS) this.#records = this.#records.slice(-MOST_RECORDS);
  }
}

/** Returns how a request ended with this event; null if it goes on. */
function outcomeOf({ job, step, ending }: JobEvent): RequestOutcome | null {
  switch (step) {
    case 'settled':
      if (ending?.error?.code === 'cancelled') return 'cancelled';
      return ending?.state === 'succeeded' && refusalOf(ending.result) === null ? 'succeeded' : 'failed';
    case 'cancelled':
    case 'expired':
      return step;
    case 'refused':
      return 'rejected';
    case 'released':
    case 'returned':
      // If a relay was to carry the answer, only the gateway can ask again.
      return job.mode === 'waiting' && job.reply === null ? 'rejected' : null;
    default:
      return null;
  }
}

/** Returns the status of an answer that is the engine's error, carried to its caller like any answer; else null. */
function refusalOf(result: Record<string, unknown> | null): number | null {
  const status = Number(result?.http_status ?? 0);
  return status >= 400 ? status : null;
}

function isSlow(event: JobEvent): boolean {
  const { job, at, timing } = event;
  // A stored job may wait for hours, as it is meant to.
  const from = job.mode === 'waiting' ? submittedAt(job) : (job.leased_at ?? at);
  return (firstTokenAt(job, at, timing) ?? job.leased_at ?? at) - from > SLOW_MS;
}

/** @param standsFor how many requests like it the record stands for */
function recordOf(core: Core, event: JobEvent, outcome: RequestOutcome, standsFor: number): RequestRecord {
  const { job, at, timing, usage } = event;
  const { model, config_id, mode } = keyOf(core, job, usage);
  const { alias, mirrors } = job.extras;
  const submitted = submittedAt(job);
  const firstToken = firstTokenAt(job, at, timing);
  return {
    id: job.id,
    request_id: job.mode === 'waiting' ? job.request_id : null,
    kind: mode === 'waiting' ? 'live' : mode,
    submitted_at: submitted,
    ended_at: at,
    config_id,
    model,
    ...(alias && { alias: alias.name, fallback: alias.fell }),
    ...(mirrors && { alias: mirrors, fallback: 'mirror' }),
    route: job.mode === 'waiting' ? job.route : job.job_type,
    tenant: job.tenant,
    token_name: job.token_name,
    worker_id: job.leased_at === null ? null : job.worker_id,
    attempts: attemptsOf(event),
    outcome,
    ...errorOf(event),
    tokens_in: usage?.prompt_tokens ?? null,
    tokens_out: usage?.completion_tokens ?? null,
    cached_tokens: usage?.cached_tokens ?? null,
    wait_ms: Math.max(0, (givenAt(job) ?? at) - submitted),
    first_token_ms: firstToken === null ? null : Math.max(0, firstToken - submitted),
    total_ms: Math.max(0, at - submitted),
    is_slow: isSlow(event),
    stands_for: standsFor,
  };
}

/** Returns how many attempts were made in all, including the one that the request ended in. */
function attemptsOf({ job, ending }: JobEvent): number {
  const ran = job.leased_at === null || job.worker_id === null ? 0 : 1;
  if (job.mode === 'waiting') return (job.earlier?.attempts ?? 0) + ran;
  // An attempt that failed was charged; one that ran when its job ended otherwise was not.
  const charged = ending?.attempts ?? job.attempts;
  return ending?.state === 'failed' || ending?.worker_id === null ? charged : charged + 1;
}

function errorOf({ step, detail, ending, refusal }: JobEvent): Pick<RequestRecord, 'error_code' | 'error'> {
  const told = (code: string | null, message: string | null) => ({
    error_code: code,
    error: message?.slice(0, RECORD_ERROR_CHARACTERS) ?? null,
  });
  if (ending?.error) return told(ending.error.code, ending.error.message);
  const status = ending ? refusalOf(ending.result) : null;
  if (status !== null) return told(`http_${status}`, `the engine answered ${status}`);
  if (step === 'refused') return told(refusal ?? 'rejected', detail);
  if (step === 'released' || step === 'returned') return told(step, detail);
  return told(null, null);
}

/** Hashes by FNV-1a with MurmurHash3's last step: ids that differ in their last character differ in the high bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
