import { expireInMemory } from './commands/expire.ts';
import { get } from './commands/wait.ts';
import { takeWhatWasLeft } from './dispatch/other-models.ts';
import { placeRetries } from './dispatch/retries.ts';
import { wakeOverdue } from './dispatch/waking.ts';
import { countDecided } from './projections/count.ts';
import type { Waiters } from './projections/waiters.ts';
import type { Core } from './state/state.ts';
import { nextRejection, rejectOverdue } from './waiting/admission.ts';

/**
 * The interval, ms, at which the object checks waiting jobs while callers wait; it also keeps the object from being
 * evicted.
 */
const TICK_MS = 2000;

interface Timed {
  /** Returns the epoch ms at which `run` may have something to do, never too late; null if there is nothing. */
  dueAt(core: Core): number | null;
  /** Does what is due now. */
  run(core: Core): void;
}

/** All work that is due at a time that only memory knows, in the order in which it is done; leases have the alarm. */
const TIMED: readonly Timed[] = [
  { dueAt: nextRejection, run: rejectOverdue },
  {
    dueAt: ({ waiting, now }) => (waiting.size > 0 ? Math.min(now() + TICK_MS, waiting.nextLimit) : null),
    run: expireInMemory,
  },
  waiting(({ stored }) => stored.waiters),
  waiting(({ stored }) => stored.followers),
  {
    dueAt: ({ stored }) => stored.listeners.soonest,
    run: ({ stored }) => stored.listeners.expire(),
  },
  { dueAt: ({ ready }) => ready.wakesAt, run: wakeOverdue },
  { dueAt: ({ ready }) => ready.looksAt, run: takeWhatWasLeft },
  { dueAt: ({ ready }) => ready.retriesAt, run: placeRetries },
  { dueAt: ({ limits }) => limits.earlier.nextLost, run: ({ limits }) => limits.endLost() },
  { dueAt: ({ requests }) => requests.nextDecided, run: countDecided },
];

function waiting(of: (core: Core) => Waiters): Timed {
  return {
    dueAt: (core) => of(core).soonest,
    run: (core) => of(core).expire(core.now(), (jobId) => get(core, jobId, null)),
  };
}

/** Returns the epoch ms at which `runDue`, a write or a dispatch pass is wanted; null if memory holds nothing due. */
export function nextTimed(core: Core): number | null {
  const { usage, counts, limits } = core;
  const times = [...TIMED.map(({ dueAt }) => dueAt(core)), usage.dueAt, counts.dueAt, limits.opensAt];
  return times.reduce((next, time) => (next === null || (time !== null && time < next) ? time : next), null);
}

export function runDue(core: Core): void {
  for (const { run } of TIMED) run(core);
}
