import { expect, it } from 'vitest';
import { AlertPoster } from '../../../src/features/alerts/object/poster.ts';
import { ReceiverStates } from '../../../src/features/alerts/object/receiver-states.ts';
import { alertReceivers } from '../../../src/settings/alert-receivers.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';

/** One receiver of webhooks, which answers each worker's problem with a status of its own. */
const RECEIVERS = alertReceivers({
  alerts: JSON.stringify([{ name: 'pager', kind: 'webhook', url: 'http://receiver/' }]),
  alert_url: '',
});

function played(statuses: Record<string, number>) {
  const fleet = new FleetHarness();
  const posts: string[] = [];
  let rung: Promise<void>[] = [];
  const states = new ReceiverStates(fleet.sql, ['pager']);
  const poster = new AlertPoster({
    receivers: RECEIVERS,
    alerts: fleet.alerts,
    mutes: fleet.mutes,
    states,
    ways: {
      post:
        () =>
        async (_, { body }) => {
          const { worker_id } = JSON.parse(String(body)).data;
          posts.push(worker_id);
          return new Response(null, { status: statuses[worker_id] ?? 200 });
        },
      mail: null,
    },
    told: () => ({ queueId: 'q', prefix: '', now: fleet.nowMs }),
    everyMs: 5000,
    alarm: { get: () => null, set: () => {}, clear: () => {} },
    now: () => fleet.nowMs,
    view: async () => fleet.view(),
    commit: (work) => work(),
    background: (work) => rung.push(work),
    log: () => {},
  });
  const round = async (seconds: number) => {
    posts.length = 0;
    fleet.advance(seconds);
    rung = [];
    await poster.postNews();
    await Promise.all(rung);
    return [...posts];
  };
  for (const worker of ['a', 'b', 'c'])
    fleet.heartbeat(worker, { status: 'fatal', error_message: 'no GPU', interval_seconds: 3600 });
  return { fleet, states, round };
}

it('a problem that a receiver refuses keeps no other from it, and is tried at longer and longer intervals', async () => {
  const { states, round } = played({ a: 422 });
  await round(0);
  expect((await round(15)).sort()).toEqual(['a', 'b', 'c']);
  expect(states.of('pager')).toMatchObject({ failures: 1, last_failure: 'it answered 422' });
  expect(await round(4)).toEqual([]);
  expect(await round(1)).toEqual(['a']);
  expect(await round(9)).toEqual([]);
  expect(await round(1)).toEqual(['a']);
});

it('a receiver that takes nothing is asked once, and told all of it once it does', async () => {
  const statuses: Record<string, number> = { a: 503, b: 503, c: 503 };
  const { round } = played(statuses);
  await round(0);
  expect(await round(15)).toHaveLength(1);
  Object.assign(statuses, { a: 200, b: 200, c: 200 });
  expect((await round(5)).sort()).toEqual(['a', 'b', 'c']);
  expect(await round(60)).toEqual([]);
});
