import type { JobView, LedgerView } from '../../src/protocol/index.ts';
import { type Fault, type FaultKind, REDIAL_MS } from './faults.ts';
import { TIMES } from './road.ts';

/** What a run may not leave behind, each with what was found. */
export interface Counts {
  /** Accepted, and not succeeded in the end. */
  lost: string[];
  /** Succeeded with another answer than the engine gives. */
  wrongAnswers: string[];
  /** The same of results that go by reference. */
  largeResultsWrong: string[];
  /** Answers to callers, streamed or in one piece, that did not end as they may. */
  streamsWrong: string[];
  /** Lines of the batch that are not in its files once, with an engine's answer. */
  linesWrong: string[];
  /** Jobs of RunPod's form that did not stream and end as they may. */
  endpointWrong: string[];
  /** Jobs whose end was not posted to their webhook, or in two ways. */
  hooksWrong: string[];
  settledTwice: string[];
  wronglyCharged: string[];
  leftovers: string[];
  processesLeft: string[];
}

/**
 * Which faults account for an attempt that was charged to a job, by its code.
 *
 * `strong` alone is reason enough. `weak` faults are survived without a charge when they come alone (a cut is
 * shorter than the grace, a queue that restarts gives one grace, a drain releases its jobs), but not always
 * two of them together: a worker that is cut again and again while it dials waits longer each time.
 */
const EXPLAINED_BY: Record<string, { strong: FaultKind[]; weak: FaultKind[] }> = {
  worker_died: {
    strong: ['kill_worker', 'kill_supervisor', 'kill_engine'],
    weak: ['drain', 'cut', 'stall', 'half_open', 'slow', 'kill_queue'],
  },
  lease_expired: {
    strong: ['kill_worker', 'kill_supervisor', 'kill_engine', 'stall', 'half_open'],
    weak: ['slow', 'cut', 'drain', 'kill_queue'],
  },
  engine_died: { strong: ['kill_engine', 'kill_supervisor'], weak: [] },
  engine_unreachable: { strong: ['kill_engine', 'kill_supervisor'], weak: [] },
};

/** One charged attempt: from its dispatch to the moment it was charged, epoch ms, on one worker. */
export interface Charge {
  code: string;
  worker: string | null;
  from: number;
  to: number;
}

/** What the clocks of two processes on a loaded machine may be apart from what they measure, ms. */
export const SLACK_MS = 500;

/** No lease ends sooner after its dispatch, whatever happens: a socket that closes leaves the grace, ms. */
const SHORTEST_LEASE_MS = TIMES.grace * 1000 - SLACK_MS;

/** Whether what happened to its worker, while the attempt ran and at no other time, accounts for this charge. */
export function isExplained(charge: Charge, faults: readonly Fault[]): boolean {
  if (charge.code === 'lease_expired' && charge.to - charge.from < SHORTEST_LEASE_MS) return false;
  const ofWorker = faults.filter(({ worker }) => worker === null || worker === charge.worker);
  return canCause(charge.code, faultsDuring(charge, ofWorker.map(withRedial)));
}

/** A queue that answers again after a kill has its workers back only once they have dialled again. */
function withRedial(fault: Fault): Fault {
  if (fault.kind !== 'kill_queue' || fault.until === null) return fault;
  return { ...fault, until: fault.until + REDIAL_MS };
}

/** Whether these faults account for an attempt that ended with this code. */
export function canCause(code: string, during: readonly Fault[]): boolean {
  const by = EXPLAINED_BY[code];
  if (!by) return false;
  const strong = during.filter(({ kind }) => by.strong.includes(kind));
  const weak = during.filter(({ kind }) => by.weak.includes(kind));
  return strong.length > 0 || weak.length > 1;
}

/** The faults that had begun and were not yet over at some moment of this time. */
export function faultsDuring({ from, to }: { from: number; to: number }, faults: readonly Fault[]): Fault[] {
  return faults.filter(
    (fault) => fault.at <= to + SLACK_MS && from - SLACK_MS <= (fault.until ?? Number.POSITIVE_INFINITY),
  );
}

/** What is wrong with a job's charges, by its record and its ledger; empty: nothing. */
export function wrongCharges(view: JobView, ledger: LedgerView, faults: readonly Fault[]): string[] {
  const wrong: string[] = [];
  const { attempts, attempt_errors: errors } = view;
  const fences = errors.map(({ fence_token }) => fence_token);
  // A lease that ran out is charged, and its attempt may succeed yet.
  const made = new Set(view.state === 'succeeded' ? [...fences, view.fence_token] : fences);
  if (attempts !== made.size) wrong.push(`${view.id}: ${attempts} attempts, ${errors.length} errors`);
  if (new Set(fences).size !== fences.length) wrong.push(`${view.id}: one attempt charged twice: ${fences}`);
  for (const error of errors) {
    const what = `${view.id}: ${error.code} at ${error.at} on ${error.worker_id} (fence ${error.fence_token})`;
    const dispatched = ledger.steps.find(
      ({ step, fence_token }) => step === 'dispatched' && fence_token === error.fence_token,
    );
    if (!dispatched) {
      wrong.push(`${what}: its ledger knows no dispatch`);
      continue;
    }
    const { code, worker_id: worker = null } = error;
    const charge = { code, worker, from: Date.parse(dispatched.at), to: Date.parse(error.at) };
    if (!isExplained(charge, faults)) wrong.push(`${what}, dispatched at ${dispatched.at}: ${error.message}`);
  }
  return wrong;
}
