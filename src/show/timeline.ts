import type { LedgerStep } from '../protocol/jobs.ts';

/** A job's activity in a span of time. */
export type Activity = 'wait' | 'prefill' | 'decode' | 'run';

interface Span {
  activity: Activity;
  /** The span's beginning, epoch ms. */
  from: number;
  to: number;
}

/** An attempt at a job, or the time before the first one. */
export interface Lane {
  /** The attempt's number, from 1; 0: no worker had the job. */
  attempt: number;
  worker_id: string | null;
  spans: Span[];
  /** The end of the attempt, with its reason; null: it is still running. */
  end: { step: string; detail: string | null } | null;
}

export interface Timeline {
  from: number;
  to: number;
  lanes: Lane[];
  /** Whether two attempts were on the same worker. */
  repeatsWorker: boolean;
}

/** The steps that end an attempt, or the wait for one, in words. */
export const ENDS: Record<string, string> = {
  released: 'Released by its worker',
  returned: 'Taken back',
  moved: 'Moved',
  attempt_failed: 'Failed',
  lease_expired: 'Lease ran out',
  settled: 'Settled',
  cancelled: 'Cancelled',
  expired: 'Deadline passed',
  refused: 'Refused',
};

/**
 * Returns a job's ledger as lanes, one for each attempt: the wait for it, and its activities. A step that only repeats
 * an end, or refuses a result after it, has no length, and appears only in the list of steps.
 * @param now epoch ms; the provisional end of a running attempt
 */
export function timelineOf(steps: readonly LedgerStep[], now: number): Timeline | null {
  const first = steps[0];
  if (!first) return null;
  const from = Date.parse(first.at);
  const lanes: Lane[] = [];
  let current: (Lane & { since: number; firstToken: number | null }) | null = null;
  /** The time since which no worker has had the job; null: a worker has it. */
  let waits: number | null = from;
  const close = (at: number) => {
    if (!current) return;
    const { since, firstToken, ...lane } = current;
    lanes.push({ ...lane, spans: [...lane.spans, ...attemptSpans(since, firstToken, at)] });
    current = null;
  };
  for (const { at: iso, step, attempt, worker_id, detail } of steps) {
    const at = Date.parse(iso);
    if (step === 'dispatched') {
      close(at);
      const wait: Span[] = waits === null ? [] : [{ activity: 'wait', from: waits, to: at }];
      current = { attempt, worker_id, spans: wait, end: null, since: at, firstToken: null };
      waits = null;
    } else if (step === 'first_token' && current) current.firstToken = at;
    else if (step === 'retried') waits = at;
    else if (step === 'moved') {
      // The queue may have learnt earlier that the attempt is over.
      if (current) current.end = { step, detail };
      else if (lanes.length > 0) lanes.at(-1)!.end = { step, detail };
      close(at);
      waits ??= at;
    } else if (step in ENDS) {
      if (current) {
        current.end = { step, detail };
        close(at);
      } else if (waits !== null && !repeatsFailure(lanes.at(-1), step, detail)) {
        lanes.push({
          attempt: 0,
          worker_id: null,
          spans: [{ activity: 'wait', from: waits, to: at }],
          end: { step, detail },
        });
      }
      waits = isLast(step) ? null : at;
    }
  }
  close(now);
  if (waits !== null) {
    lanes.push({
      attempt: 0,
      worker_id: null,
      spans: [{ activity: 'wait', from: waits, to: now }],
      end: null,
    });
  }
  const to = Math.max(from + 1, ...lanes.flatMap(({ spans }) => spans.map((span) => span.to)));
  const workers = lanes.flatMap(({ worker_id }) => worker_id ?? []);
  return { from, to, lanes, repeatsWorker: new Set(workers).size < workers.length };
}

/** Returns whether the end of a job only repeats how its last attempt failed, so that the job waited for nothing. */
function repeatsFailure(last: Lane | undefined, step: string, detail: string | null): boolean {
  const hasFailed = last?.end?.step === 'attempt_failed' || last?.end?.step === 'lease_expired';
  return hasFailed && step === 'settled' && detail?.startsWith('failed') === true;
}

function isLast(step: string): boolean {
  return step === 'settled' || step === 'cancelled' || step === 'expired' || step === 'refused';
}

/**
 * Returns the spans of an attempt. It reads its prompt until its first token; without a first token, as if nothing is
 * streamed, all of it is one run.
 */
function attemptSpans(since: number, firstToken: number | null, end: number): Span[] {
  if (firstToken === null) return [{ activity: 'run', from: since, to: end }];
  return [
    { activity: 'prefill', from: since, to: firstToken },
    { activity: 'decode', from: firstToken, to: Math.max(firstToken, end) },
  ];
}

/** Returns about five round times from 0. @param length ms */
export function ticksOf(length: number): number[] {
  const rough = length / 5;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  return Array.from({ length: Math.floor(length / step) + 1 }, (_, n) => n * step);
}
