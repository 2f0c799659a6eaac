import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ObjectHost } from '../../../src/durable/host.ts';
import { alertingWith } from '../../../src/features/alerts/object/alerting.ts';
import { FleetObject } from '../../../src/fleet/object.ts';
import { type HeldObject, holdObject } from '../../support/held-object.ts';
import { until } from '../../support/poll.ts';

let fleet: HeldObject<FleetObject>;

const others = {
  queue: () => ({ tellFleet: async () => {}, cordon: async () => ({}) }),
  batches: () => ({ backlog: async () => [] }),
  fleet: () => ({ signedIn: async () => null }),
};

const made = (host: ObjectHost<never>) =>
  new FleetObject(
    host as ConstructorParameters<typeof FleetObject>[0],
    {},
    others,
    alertingWith({}, { post: () => fetch, mail: null }),
  );

beforeEach(async () => {
  fleet = await holdObject(FleetObject, made);
});
afterEach(() => fleet.end());

describe('the object of a fleet', () => {
  it('saves what it has just heard when the clock was set back', async () => {
    await fleet.ask.heartbeat({ instance_id: 'w1', status: 'running' });
    await fleet.setClockBack();
    expect((await fleet.ask.workers()).map(({ worker_id }) => worker_id)).toEqual(['w1']);
  });

  it('saves what it has heard within seconds', async () => {
    await fleet.ask.heartbeat({ instance_id: 'w1', status: 'running' });
    const isSaved = () => fleet.host().sql.exec('SELECT 1 FROM workers').length > 0;
    await until(isSaved, 'the worker is saved');
  });

  it('takes 1,000 viewers, and tells the next one to poll', async () => {
    await fleet.ask.workers();
    const open = Array.from({ length: 999 });
    const crowded = made(Object.assign(fleet.host(), { sockets: () => open }));
    expect(crowded.mayOpen()).toBeNull();
    open.push(null);
    expect(crowded.mayOpen()).toMatch(/1000 viewers .* poll GET \/api\/fleet/);
  });
});
