import { expect, it } from 'vitest';
import type { Backlog } from '../../../src/batches/batch.ts';
import { Scheduling } from '../../../src/fleet/scheduling.ts';
import { FleetSpec } from '../../../src/scheduler/spec.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { pool } from '../../support/queue-share.ts';

/** What the scheduler is told of batches by the objects around it. */

const DAY = 24 * 3_600_000;
/** As the gateway submits them. */
const LINE_PRIORITY = -10;

class Road {
  readonly fleet = new FleetHarness();
  /** What the batches object answers, and when it is asked. */
  backlog: (asked: number) => Backlog[] = () => [];
  #asked = 0;
  #alarmAt: number | null = null;
  readonly #scheduling: Scheduling;

  constructor() {
    const { fleet } = this;
    fleet.rules.scheduler.specs.apply(
      FleetSpec.parse({
        providers: { here: { driver: 'runpod' } },
        pools: { chat: { model: 'tiny', slots: 2, max: 3, machines: [{ provider: 'here' }] } },
      }),
      false,
    );
    this.#scheduling = new Scheduling({
      fleet: fleet.rules,
      queueId: 'q',
      alarm: {
        get: () => this.#alarmAt,
        set: (at) => {
          this.#alarmAt = at;
        },
        clear: () => {
          this.#alarmAt = null;
        },
      },
      now: () => fleet.nowMs,
      commit: (work) => work(),
      cordon: async () => ({}),
      backlog: async () => this.backlog(++this.#asked),
      after: () => () => {},
      log: (_level, message, error) => {
        throw new Error(message, { cause: error });
      },
    });
    this.queueTells(0);
  }

  /** The queue reports so many lines that wait there. */
  queueTells(lines: number): void {
    const { nowMs: at, rules } = this.fleet;
    const share = pool('chat', {
      pending: { waiting: 0, stored: lines },
      by_priority: lines > 0 ? [{ priority: LINE_PRIORITY, pending: lines }] : [],
    });
    const whole = { at, full: true, sessions: [], gone: [], pools: [share] };
    rules.record([], whole);
    this.#scheduling.heard(whole);
  }

  async reconcile(seconds = 1): Promise<void> {
    const { fleet } = this;
    fleet.nowMs += seconds * 1000;
    const list = { provider: 'here', age_ms: 0, machines: [], error: null };
    const prices = [{ provider: 'here', instance_type: '', price_per_hour: 1 }];
    const report = { drivers: ['runpod'], lists: [list], results: [], prices };
    fleet.rules.scheduler.sync('l-1', report);
    await this.#scheduling.reconcile();
  }

  get scaling() {
    return this.fleet.rules.scheduler.scaling()!.pools.get('chat')!;
  }

  get launches(): number {
    return this.fleet.rules.scheduler.launches().length;
  }
}

function lines(of: Partial<Backlog>, now: number): Backlog[] {
  return [{ model: 'tiny', lines: 100, in_queue: 64, window_ends_at: now + DAY, ...of }];
}

it('takes lines of a batch that was just made for no jobs that a machine is launched for', async () => {
  const road = new Road();
  await road.reconcile();
  road.backlog = () => lines({}, road.fleet.nowMs);
  road.queueTells(64);
  await road.reconcile();
  expect(road.launches).toBe(0);
  expect(road.scaling).toMatchObject({ wanted: 0, batch_wait: { lines: 100 } });
  expect(road.scaling.decision?.text).toMatch(
    /^0 workers wanted: 100 lines of batches wait, 1000 of the 1080 slot-seconds that pay for a start; one is launched for them at 23:\d\d UTC at the latest\.$/,
  );
});

it('asks again where lines reach the queue while the batches object answers', async () => {
  const road = new Road();
  await road.reconcile();
  road.backlog = (asked) => {
    if (asked === 2) road.queueTells(64);
    return asked === 2 ? lines({ in_queue: 0 }, road.fleet.nowMs) : lines({}, road.fleet.nowMs);
  };
  await road.reconcile(6);
  expect(road.launches).toBe(0);
});

it('takes lines that have ended since the queue’s report for no jobs that wait', async () => {
  const road = new Road();
  road.backlog = () => lines({ lines: 64 }, road.fleet.nowMs);
  road.queueTells(64);
  await road.reconcile();
  road.backlog = () => [];
  await road.reconcile(6);
  expect(road.launches).toBe(0);
});

it('launches for stored jobs of a low priority, which are of no batch', async () => {
  const road = new Road();
  road.queueTells(6);
  await road.reconcile();
  expect(road.launches).toBeGreaterThan(0);
});
