import { describe, expect, it } from 'vitest';
import { SchedulerHarness } from '../../support/scheduler-harness.ts';

/** A pool with a busy worker, taken out of the file: the worker drains. */
function takenOut() {
  const fleet = new SchedulerHarness();
  fleet.apply();
  const { id, name } = fleet.ready();
  fleet.running[name] = 1;
  fleet.session(name, { running: 1 });
  fleet.scheduler.specs.remove(false);
  fleet.list([{ name }]);
  fleet.reconcile();
  expect(fleet.row(id).state).toBe('draining');
  /** It is put in again while there is work. */
  const putIn = (pool: object) => {
    fleet.restart();
    fleet.apply(pool);
    fleet.list([{ name }]);
    fleet.waiting = 1;
    fleet.reconcile();
    return fleet.row(id).state;
  };
  return { putIn };
}

describe('a pool that is taken out of the file and put in again', () => {
  it('takes its workers back where they are the same', () => {
    expect(takenOut().putIn({})).toBe('ready');
  });

  it('does not take back workers of another model, which would answer for the new one', () => {
    expect(takenOut().putIn({ model: 'another' })).toBe('draining');
  });
});
