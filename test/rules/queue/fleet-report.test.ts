import { expect, it } from 'vitest';
import type { FleetEvent } from '../../../src/fleet/rpc.ts';
import { FleetReport } from '../../../src/queue/object/fleet-report.ts';

const event = (worker_id: string): FleetEvent => ({
  kind: 'connected',
  worker_id,
  config_id: 'cfg',
  models: [],
  at: 0,
});

function report() {
  const sent: string[][] = [];
  const planned: { ms: number; run: () => void }[] = [];
  const failures: string[] = [];
  const fleet = { isReachable: true };
  const report = new FleetReport({
    send: async (events) => {
      if (!fleet.isReachable) throw new Error('the fleet object restarts');
      sent.push(events.map(({ worker_id }) => worker_id));
    },
    after: (ms, run) => planned.push({ ms, run }),
    failed: (error) => failures.push((error as Error).message),
  });
  return { report, sent, planned, fleet, failures };
}

it('events of a second go to the fleet object in one call', async () => {
  const { report: toFleet, sent, planned } = report();
  for (const id of ['a', 'b', 'c']) toFleet.tell(event(id));
  expect([sent, planned.map(({ ms }) => ms)]).toEqual([[], [1000]]);
  planned[0]?.run();
  await toFleet.flush();
  expect(sent).toEqual([['a', 'b', 'c']]);
});

it('who reads the fleet has all that was told before sent first', async () => {
  const { report: toFleet, sent } = report();
  toFleet.tell(event('a'));
  await toFleet.flush();
  expect(sent).toEqual([['a']]);
});

it('events of a call that failed are sent again, before newer ones, and the outage is told once', async () => {
  const { report: toFleet, sent, planned, fleet, failures } = report();
  fleet.isReachable = false;
  toFleet.tell(event('a'));
  await toFleet.flush();
  toFleet.tell(event('b'));
  await toFleet.flush();
  expect(failures).toEqual(['the fleet object restarts']);
  fleet.isReachable = true;
  planned.at(-1)?.run();
  await toFleet.flush();
  expect(sent).toEqual([['a', 'b']]);
});
