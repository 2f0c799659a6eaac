import { expect, it } from 'vitest';
import type { FleetEvent, PoolStart, QueueShare } from '../../../src/fleet/rpc.ts';
import type { RequestRecord } from '../../../src/protocol/index.ts';
import { FleetReport } from '../../../src/queue/object/fleet-report.ts';

const event = (worker_id: string): FleetEvent => ({
  kind: 'connected',
  worker_id,
  config_id: 'cfg',
  models: [],
  at: 0,
});

const session = (worker_id: string, running: number) => ({
  worker_id,
  config_id: 'cfg',
  state: 'ready' as const,
  protocol: 'extended' as const,
  capacity: 4,
  running,
  connected_at: 0,
  adapters: null,
  models: [],
});

function report() {
  const sent: string[][] = [];
  const shares: QueueShare[] = [];
  const ended: RequestRecord[] = [];
  const told: string[][] = [];
  const failed: Record<string, number>[] = [];
  const toldFailed: Record<string, number>[] = [];
  const queue: { sessions: QueueShare['sessions']; awaitsStart: boolean } = {
    sessions: [],
    awaitsStart: false,
  };
  const heard: PoolStart[][] = [];
  const planned: { ms: number; run: () => void }[] = [];
  const failures: string[] = [];
  const fleet: { isReachable: boolean; isAnswerLost: boolean; wants: 'full' | null } = {
    isReachable: true,
    isAnswerLost: false,
    wants: null,
  };
  const report = new FleetReport({
    send: async (events, share, records, byWorker) => {
      if (!fleet.isReachable) throw new Error('the fleet object restarts');
      if (events.length > 0) sent.push(events.map(({ worker_id }) => worker_id));
      if (share) shares.push(share);
      if (Object.keys(byWorker).length > 0) toldFailed.push(byWorker);
      if (records.length > 0) told.push(records.map(({ id }) => id));
      if (fleet.isAnswerLost) throw new Error('the answer is lost');
      return { wants: fleet.wants, starts: [], aliases: {} };
    },
    share: () => ({ at: 0, full: true, sessions: queue.sessions, gone: [], pools: [] }),
    takeEnded: () => ended.splice(0),
    takeFailed: () => failed.splice(0)[0] ?? {},
    takeDisplaced: () => ({}),
    awaitsStart: () => queue.awaitsStart,
    takeAliases: async () => {},
    takeStarts: (starts) => heard.push(starts),
    after: (ms, run) => planned.push({ ms, run }),
    failed: (error) => failures.push((error as Error).message),
  });
  return { report, sent, shares, ended, told, failed, toldFailed, queue, heard, planned, fleet, failures };
}

it('events of a second go to the fleet object in one call', async () => {
  const { report: toFleet, sent, planned } = report();
  for (const id of ['a', 'b', 'c']) toFleet.tell(event(id));
  expect([sent, planned.map(({ ms }) => ms)]).toEqual([[], [100]]);
  planned[0]?.run();
  await toFleet.flush();
  expect(sent).toEqual([['a', 'b', 'c']]);
  for (const id of ['d', 'e']) toFleet.tell(event(id));
  await Promise.resolve();
  expect([sent.length, planned.map(({ ms }) => ms)]).toEqual([1, [100, 1000]]);
  planned[1]?.run();
  await toFleet.flush();
  expect(sent[1]).toEqual(['d', 'e']);
  planned[2]?.run();
  toFleet.tell(event('f'));
  expect(planned.map(({ ms }) => ms)).toEqual([100, 1000, 1000, 100]);
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

it('the fleet object is told of all numbers once, then of those that changed', async () => {
  const { report: toFleet, shares, queue } = report();
  queue.sessions = [session('a', 0), session('b', 0)];
  await toFleet.flush();
  await toFleet.flush();
  queue.sessions = [session('b', 1)];
  await toFleet.flush();
  expect(
    shares.map(({ full, sessions, gone }) => [full, sessions.map(({ running }) => running), gone]),
  ).toEqual([
    [true, [0, 0], []],
    [false, [1], ['a']],
  ]);
});

it('numbers of a call that failed are told with the next one', async () => {
  const { report: toFleet, shares, queue, fleet } = report();
  await toFleet.flush();
  fleet.isReachable = false;
  queue.sessions = [session('a', 0)];
  await toFleet.flush();
  fleet.isReachable = true;
  await toFleet.flush();
  expect(shares.map(({ sessions }) => sessions.length)).toEqual([0, 1]);
});

it('numbers that are again what they were before an answer was lost are told again', async () => {
  const { report: toFleet, shares, queue, fleet } = report();
  queue.sessions = [session('a', 2)];
  await toFleet.flush();
  fleet.isAnswerLost = true;
  queue.sessions = [session('a', 3), session('b', 0)];
  await toFleet.flush();
  fleet.isAnswerLost = false;
  queue.sessions = [session('a', 2)];
  await toFleet.flush();
  await toFleet.flush();
  expect(shares.map(({ full, sessions }) => [full, sessions.map(({ running }) => running)])).toEqual([
    [true, [2]],
    [false, [3, 0]],
    [true, [2]],
  ]);
});

it('attempts that failed are told though no number has changed', async () => {
  const { report: toFleet, failed, toldFailed } = report();
  await toFleet.flush();
  failed.push({ a: 2 });
  await toFleet.flush();
  expect(toldFailed).toEqual([{ a: 2 }]);
});

it('a fleet object that has lost the numbers is told all of them again, a second later', async () => {
  const { report: toFleet, shares, queue, planned, fleet } = report();
  queue.sessions = [session('a', 0)];
  await toFleet.flush();
  fleet.wants = 'full';
  toFleet.tell(event('a'));
  await toFleet.flush();
  fleet.wants = null;
  planned.at(-1)?.run();
  await toFleet.flush();
  expect(shares.map(({ full }) => full)).toEqual([true, true]);
});

it('while callers wait for a worker to be started, its news are asked for without anything to tell', async () => {
  const { report: toFleet, shares, queue, heard } = report();
  await toFleet.flush();
  await toFleet.flush();
  expect([shares.length, heard.length]).toEqual([1, 1]);
  queue.awaitsStart = true;
  await toFleet.flush();
  expect([shares.length, heard.length]).toEqual([1, 2]);
});
