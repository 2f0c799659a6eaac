import { describe, expect, it } from 'vitest';
import { SchedulerHarness } from '../../support/scheduler-harness.ts';

const HOUR_MS = 3_600_000;

/** The process starts again, an hour earlier. */
function setBack(fleet: SchedulerHarness): void {
  fleet.now -= HOUR_MS;
  fleet.restart();
}

describe('a clock that was set back', () => {
  it('does not keep an order from being given again', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const { id, name } = fleet.accepted();
    fleet.list([{ name, state: 'ended' }]);
    fleet.reconcile();
    expect(fleet.sync().orders).toMatchObject([{ kind: 'terminate', launch_id: id }]);
    setBack(fleet);
    fleet.reconcile();
    expect(fleet.sync().orders).toEqual([]);
    fleet.reconcile(60);
    expect(fleet.sync().orders).toMatchObject([{ kind: 'terminate', launch_id: id }]);
  });

  it('does not keep a launch that no list shows', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const { id } = fleet.accepted();
    setBack(fleet);
    for (let n = 0; n < 6; n++) {
      fleet.reconcile(15);
      fleet.list([]);
    }
    expect(fleet.row(id)).toMatchObject({ state: 'failed', cause: 'vanished' });
  });

  it('leaves the times of a row as far apart as they were', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const before = fleet.accepted();
    setBack(fleet);
    fleet.reconcile(0);
    const after = fleet.row(before.id);
    expect(after.state_at).toBe(before.state_at - HOUR_MS);
    expect(after.accepted_at! - after.intended_at).toBe(before.accepted_at! - before.intended_at);
  });
});
