import { describe, expect, it } from 'vitest';
import { type CanaryAnswer, HangWatch } from '../../../src/engine/client/hang.ts';
import type { EngineGauges } from '../../../src/engine/client/types.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const MINUTE = 60_000;
const BUSY: EngineGauges = { running: 1, waiting: 0, kvCacheUsage: 0.1, progress: 7 };
const IDLE: EngineGauges = { ...BUSY, running: 0 };

describe('an engine with work', () => {
  it('that makes nothing for two minutes and does not answer a canary hangs', async () => {
    const bench = new Bench({ gauges: BUSY, canary: 'late' });
    bench.watch.healthy();
    await bench.clock.advance(2 * MINUTE - 5000);
    expect(bench.canaries).toBe(0);
    await bench.clock.advance(10_000);
    expect(bench.canaries).toBe(1);
    expect(bench.hung).toHaveLength(1);
    expect(bench.hung[0]).toMatch(/made nothing for 1[12]\d s, .* one token/);
    expect(bench.clock.armed).toBe(0);
  });

  it('that answers the canary is only slow, and is looked at again', async () => {
    const bench = new Bench({ gauges: BUSY, canary: 'alive' });
    bench.watch.healthy();
    await bench.clock.advance(10 * MINUTE);
    expect(bench.hung).toEqual([]);
    expect(bench.canaries).toBeGreaterThanOrEqual(4);
    bench.canary = 'late';
    await bench.clock.advance(3 * MINUTE);
    expect(bench.hung).toHaveLength(1);
  });

  it('that moves, however slowly, is never asked', async () => {
    const bench = new Bench({ gauges: BUSY, canary: 'late' });
    bench.watch.healthy();
    for (let minute = 0; minute < 10; minute++) {
      bench.gauges = { ...BUSY, progress: minute };
      await bench.clock.advance(MINUTE);
    }
    expect(bench.canaries).toBe(0);
  });

  it('that moves while the canary waits is alive: the canary stands in a queue', async () => {
    const bench = new Bench({ gauges: BUSY, canary: 'late' });
    bench.duringCanary = () => {
      bench.gauges = { ...BUSY, progress: bench.canaries };
    };
    bench.gauges = { ...BUSY, progress: -1 };
    bench.watch.healthy();
    await bench.clock.advance(20 * MINUTE);
    expect(bench.canaries).toBeGreaterThan(3);
    expect(bench.hung).toEqual([]);
  });

  it('is known by our own count too, when the gauges stopped with the engine', async () => {
    const bench = new Bench({ gauges: IDLE, canary: 'late' });
    bench.watch.healthy();
    await bench.clock.advance(MINUTE);
    bench.ownWork = 1;
    await bench.clock.advance(2 * MINUTE - 5000);
    expect(bench.hung).toEqual([]);
    await bench.clock.advance(10_000);
    expect(bench.hung).toHaveLength(1);
  });

  it('stays under suspicion when its metrics page fails as well', async () => {
    const bench = new Bench({ gauges: BUSY, canary: 'late' });
    bench.ownWork = 1;
    bench.watch.healthy();
    await bench.clock.advance(5000);
    bench.gauges = null;
    await bench.clock.advance(3 * MINUTE);
    expect(bench.hung).toHaveLength(1);
  });

  it('is not suspected when it counts nothing, or when the canary is no question for it', async () => {
    const counting = new Bench({ gauges: BUSY, canary: 'unfit' });
    counting.watch.healthy();
    await counting.clock.advance(10 * MINUTE);
    expect(counting.hung).toEqual([]);
    const { progress: _, ...uncounted } = BUSY;
    const silent = new Bench({ gauges: uncounted, canary: 'late' });
    silent.watch.healthy();
    await silent.clock.advance(10 * MINUTE);
    expect(silent.canaries).toBe(0);
  });
});

describe('an idle engine', () => {
  it('is left alone unless canaries are wanted', async () => {
    const bench = new Bench({ gauges: IDLE, canary: 'late' });
    bench.watch.healthy();
    await bench.clock.advance(60 * MINUTE);
    expect(bench.canaries).toBe(0);
  });

  it('hangs when the canary that is wanted does not come', async () => {
    const bench = new Bench({ gauges: IDLE, canary: 'alive', canaryMs: 5 * MINUTE });
    bench.watch.healthy();
    await bench.clock.advance(16 * MINUTE);
    expect(bench.canaries).toBe(3);
    bench.canary = 'late';
    await bench.clock.advance(6 * MINUTE);
    expect(bench.hung).toHaveLength(1);
  });
});

describe('the watch', () => {
  it('does nothing while it is off, and forgets what was before a restart', async () => {
    const bench = new Bench({ gauges: BUSY, canary: 'late' });
    bench.watch.healthy();
    await bench.clock.advance(100_000);
    bench.watch.stop();
    await bench.clock.advance(10 * MINUTE);
    bench.watch.healthy();
    await bench.clock.advance(100_000);
    expect(bench.hung).toEqual([]);
  });

  it('is off with ENGINE_HANG_SECONDS=0', async () => {
    const bench = new Bench({ gauges: BUSY, canary: 'late', hangMs: 0 });
    bench.watch.healthy();
    await bench.clock.advance(60 * MINUTE);
    expect(bench.canaries).toBe(0);
  });

  it('takes an engine for hung that stays unhealthy as long, and not one that recovers', async () => {
    const bench = new Bench({ gauges: IDLE, canary: 'alive' });
    bench.watch.healthy();
    bench.watch.unhealthy();
    await bench.clock.advance(100_000);
    bench.watch.healthy();
    bench.watch.unhealthy();
    await bench.clock.advance(100_000);
    expect(bench.hung).toEqual([]);
    await bench.clock.advance(20_000);
    expect(bench.hung).toEqual(['the engine hangs: it has not been healthy for 120 s']);
  });

  it('asks a hung engine that nobody restarts again, and tells when it is back', async () => {
    const bench = new Bench({ gauges: BUSY, canary: 'late', isRestarted: false });
    bench.watch.healthy();
    await bench.clock.advance(3 * MINUTE);
    expect(bench.hung).toHaveLength(1);
    bench.canary = 'alive';
    await bench.clock.advance(10_000);
    expect(bench.recovered).toBe(1);
    expect(bench.watch.state).toBe('watching');
  });
});

class Bench {
  readonly clock = new VirtualClock();
  readonly watch: HangWatch;
  readonly hung: string[] = [];
  gauges: EngineGauges | null;
  canary: CanaryAnswer;
  canaries = 0;
  recovered = 0;
  ownWork = 0;
  duringCanary = () => {};

  constructor(given: {
    gauges: EngineGauges;
    canary: CanaryAnswer;
    hangMs?: number;
    canaryMs?: number;
    isRestarted?: boolean;
  }) {
    this.gauges = given.gauges;
    this.canary = given.canary;
    this.watch = new HangWatch({
      clock: this.clock,
      gauges: async () => this.gauges,
      canary: async () => {
        this.canaries += 1;
        this.duringCanary();
        return this.canary;
      },
      ownWork: () => this.ownWork,
      hangMs: given.hangMs ?? 2 * MINUTE,
      canaryMs: given.canaryMs ?? 0,
      isRestarted: given.isRestarted ?? true,
      hung: (message) => this.hung.push(message),
      recovered: () => {
        this.recovered += 1;
      },
    });
  }
}
