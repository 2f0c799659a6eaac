import { describe, expect, it } from 'vitest';
import { SilenceWatch } from '../../../src/fleet/silence.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { session } from '../../support/queue-share.ts';

/** A fleet that watches for workers that hang, with a clock that the test moves. */
class Watched {
  readonly fleet = new FleetHarness();
  /** When the queue was asked to look, in seconds from the start, and at which workers. */
  looks: [at: number, ids: string[]][] = [];
  rings = 0;
  #alarmAt: number | null = null;
  readonly #startMs = this.fleet.nowMs;
  readonly watch = new SilenceWatch({
    connected: () => this.fleet.rules.connected(),
    ensureShare: async () => this.shareAsked(),
    closeSilent: async (ids) => void this.looks.push([(this.fleet.nowMs - this.#startMs) / 1000, ids]),
    alarm: {
      get: () => this.#alarmAt,
      set: (at) => {
        this.#alarmAt = at;
      },
      clear: () => {
        this.#alarmAt = null;
      },
    },
    now: () => this.fleet.nowMs,
  });
  shareAsked: () => void = () => {};

  connect(id: string, more: Parameters<typeof session>[1] = {}): void {
    this.fleet.registered(id);
    const sessions = [session(id, { connected_at: this.fleet.nowMs, ...more })];
    this.fleet.share({ full: true, sessions });
  }

  beat(id: string): void {
    this.fleet.heartbeat(id);
    this.watch.heard();
  }

  /** Lets the time pass second by second. @param each called in each second */
  async pass(seconds: number, each: (second: number) => void = () => {}): Promise<void> {
    for (let second = 1; second <= seconds; second++) {
      this.fleet.advance(1);
      each(second);
      if (this.#alarmAt === null || this.#alarmAt > this.fleet.nowMs) continue;
      this.rings += 1;
      await this.watch.onAlarm();
    }
  }

  /** Lets the time pass in which this process does not run. */
  standStill(seconds: number): void {
    this.fleet.advance(seconds);
  }
}

describe('a connected worker whose heartbeats stop', () => {
  it('is looked at once its heartbeat is late, and every half minute until one comes', async () => {
    const watched = new Watched();
    watched.connect('w');
    watched.beat('w');
    await watched.pass(140);
    expect(watched.looks).toEqual([
      [75, ['w']],
      [105, ['w']],
      [135, ['w']],
    ]);
    watched.beat('w');
    await watched.pass(70);
    expect(watched.looks).toHaveLength(3);
  });

  it('is not looked at while heartbeats come, and the watch costs two rings a minute at most', async () => {
    const watched = new Watched();
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f']) watched.connect(id);
    await watched.pass(600, (second) => watched.beat('abcdef'[Math.floor((second % 60) / 10)]!));
    expect(watched.looks).toEqual([]);
    expect(watched.rings).toBeGreaterThan(0);
    expect(watched.rings).toBeLessThanOrEqual(20);
  });

  it('is looked at no more when the queue has closed its connection', async () => {
    const watched = new Watched();
    watched.connect('w');
    watched.beat('w');
    await watched.pass(80);
    watched.fleet.disconnected('w');
    watched.fleet.share({ gone: ['w'] });
    await watched.pass(300);
    expect(watched.looks).toHaveLength(1);
  });

  it('has an interval from its newest connection on', async () => {
    const watched = new Watched();
    watched.connect('w');
    watched.beat('w');
    await watched.pass(60);
    watched.connect('w');
    await watched.pass(74);
    expect(watched.looks).toEqual([]);
    await watched.pass(1);
    expect(watched.looks).toEqual([[135, ['w']]]);
  });

  it('is looked at once for each connection if it is a base worker, which the look costs its connection', async () => {
    const watched = new Watched();
    watched.connect('w', { protocol: 'base' });
    watched.beat('w');
    await watched.pass(80);
    watched.connect('w', { protocol: 'base' });
    await watched.pass(600);
    expect(watched.looks).toEqual([[75, ['w']]]);
  });

  it('is not looked at right after a standstill, in which its heartbeats waited to be read', async () => {
    const watched = new Watched();
    watched.connect('w');
    watched.beat('w');
    watched.standStill(600);
    await watched.pass(20);
    expect(watched.rings).toBe(1);
    watched.beat('w');
    await watched.pass(60);
    expect(watched.looks).toEqual([]);
  });
});

it('the queue is asked who is connected before it is asked to look, where that is not known yet', async () => {
  const watched = new Watched();
  watched.beat('there');
  watched.beat('elsewhere');
  watched.shareAsked = () => {
    watched.fleet.share({
      full: true,
      sessions: [session('there', { connected_at: watched.fleet.nowMs - 80_000 })],
    });
  };
  await watched.pass(80);
  expect(watched.looks).toEqual([[75, ['there']]]);
});
