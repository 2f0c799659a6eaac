import type { AttemptError, JobView } from '../../src/protocol/index.ts';
import type { Fault, FaultKind } from './faults.ts';

/** What a run may not leave behind, each with what was found. */
export interface Counts {
  /** Accepted, and not succeeded in the end. */
  lost: string[];
  /** Succeeded with another answer than the engine gives. */
  wrongAnswers: string[];
  settledTwice: string[];
  wronglyCharged: string[];
  leftovers: string[];
  processesLeft: string[];
}

/**
 * Which faults account for an attempt that was charged to a job, by its code.
 *
 * `strong` alone is reason enough. `weak` faults are survived without a charge when they come alone (a cut is
 * shorter than the grace, a queue that restarts gives one grace, a drain hands its jobs back), but not always
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

/**
 * Whether what happened to its worker accounts for this charge.
 * @param afterMs how long after a fault was over its consequences may still show
 */
export function isExplained(charge: AttemptError, faults: readonly Fault[], afterMs: number): boolean {
  const by = EXPLAINED_BY[charge.code];
  if (!by) return false;
  const at = Date.parse(charge.at);
  const near = faults.filter(
    (fault) =>
      (fault.worker === null || fault.worker === charge.worker_id) &&
      fault.at <= at &&
      at <= (fault.until ?? Number.POSITIVE_INFINITY) + afterMs,
  );
  const strong = near.filter(({ kind }) => by.strong.includes(kind));
  const weak = near.filter(({ kind }) => by.weak.includes(kind));
  return strong.length > 0 || weak.length > 1;
}

/** What is wrong with a job's charges; empty: nothing. */
export function wrongCharges(view: JobView, faults: readonly Fault[], afterMs: number): string[] {
  const wrong: string[] = [];
  const { attempts, attempt_errors: errors } = view;
  if (attempts !== errors.length) wrong.push(`${view.id}: ${attempts} attempts, ${errors.length} errors`);
  const fences = errors.map(({ fence_token }) => fence_token);
  if (new Set(fences).size !== fences.length) wrong.push(`${view.id}: one attempt charged twice: ${fences}`);
  for (const charge of errors) {
    if (isExplained(charge, faults, afterMs)) continue;
    wrong.push(
      `${view.id}: ${charge.code} at ${charge.at} on ${charge.worker_id} (fence ${charge.fence_token}): ${charge.message}`,
    );
  }
  return wrong;
}

/** The report's table. */
export function tableOf(rows: [label: string, value: string | number][]): string {
  const width = Math.max(...rows.map(([label]) => label.length));
  return rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}`).join('\n');
}
