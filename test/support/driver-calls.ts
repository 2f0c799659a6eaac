import { setTimeout as sleep } from 'node:timers/promises';
import type { LaunchOutcome } from '../../src/scheduler/rpc.ts';
import { settled, type VirtualClock } from './virtual-clock.ts';

/** @throws Error when it was not launched */
export function idOf(outcome: LaunchOutcome): string {
  if (outcome.kind !== 'launched') throw new Error(`not launched: ${JSON.stringify(outcome)}`);
  return outcome.external_id;
}

/** Real work goes on, and virtual time passes, until the call has settled. */
export async function letPass<T>(clock: VirtualClock, call: Promise<T>): Promise<T> {
  let isSettled = false;
  const settle = () => {
    isSettled = true;
  };
  call.then(settle, settle);
  for (;;) {
    for (let turn = 0; turn < 20 && !isSettled; turn++) await settled();
    if (isSettled) return await call;
    if (clock.armed > 0) await clock.advance(100);
    else await sleep(1);
  }
}
