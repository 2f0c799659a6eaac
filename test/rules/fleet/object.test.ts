import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ObjectHost } from '../../../src/durable/host.ts';
import { alertingWith } from '../../../src/features/alerts/object/alerting.ts';
import { FleetObject } from '../../../src/fleet/object.ts';
import { type HeldObject, holdObject } from '../../support/held-object.ts';
import { until } from '../../support/poll.ts';
import { session } from '../../support/queue-share.ts';

let fleet: HeldObject<FleetObject>;

/** Alerts are told once a problem has lasted for three seconds. */
const BINDINGS = { ALERT_URL: 'https://alerts.example.com/x', ALERT_SETTLED_SECONDS: '3' };
/** The alerts that were posted to the receiver. */
let told: string[] = [];
const post = async (_url: string | URL | Request, { body }: RequestInit = {}) => {
  told.push(String(body));
  return new Response();
};

/** The workers at whose connections the queue was asked to look. */
let looked: string[] = [];
const others = {
  queue: () => ({
    tellFleet: async () => {},
    cordon: async () => ({}),
    closeSilent: async (ids: string[]) => void looked.push(...ids),
  }),
  batches: () => ({ backlog: async () => [] }),
  fleet: () => ({ signedIn: async () => null }),
};

const made = (host: ObjectHost<never>) =>
  new FleetObject(
    host as ConstructorParameters<typeof FleetObject>[0],
    {},
    others,
    alertingWith(BINDINGS, { post: () => post, mail: null }),
  );

beforeEach(async () => {
  [looked, told] = [[], []];
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

  it('tells of problems after a restart, though what is set is an alarm of another part', async () => {
    await fleet.ask.heartbeat({ instance_id: 'w1', status: 'stopping' });
    const alarmIn = () => (fleet.host().alarm.get() ?? 0) - Date.now();
    await until(() => alarmIn() > 30_000, 'no problem is awaited any more');
    await fleet.setClockBack();
    await fleet.ask.heartbeat({ instance_id: 'w2', status: 'error', error_message: 'no fan' });
    await until(() => told.some((text) => text.includes('no fan')), 'the problem is told');
  });

  it('has the queue look at a worker that hangs as soon as it has connected', async () => {
    const share = { at: Date.now(), full: true, gone: [], pools: [] };
    await fleet.ask.record([], { ...share, sessions: [] });
    await fleet.ask.heartbeat({ instance_id: 'w1', status: 'running', interval_seconds: 0.2 });
    await fleet.ask.record([], { ...share, sessions: [session('w1')] });
    await until(() => looked.includes('w1'), 'the queue is asked to look');
  });

  it('has a token that could not be rotated as it was', async () => {
    const entry = { name: 'team', sha256: 'a'.repeat(64), scopes: ['submit' as const] };
    await fleet.ask.changeTokens({ kind: 'add', entry });
    const { version } = await fleet.ask.tokens(null);
    fleet
      .host()
      .sql.exec(`CREATE TRIGGER full BEFORE INSERT ON tokens BEGIN SELECT RAISE(ABORT, 'full'); END`);
    const rotated = fleet.ask.changeTokens({ kind: 'rotate', name: 'team', sha256: 'b'.repeat(64) });
    await expect(rotated).rejects.toThrow('full');
    expect((await fleet.ask.tokens(version)).entries).toEqual([entry]);
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
