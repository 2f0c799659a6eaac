import { describe, expect, it } from 'vitest';
import { EngineHealth, type HealthState } from '../../../src/engine/client/health.ts';
import type { Probe } from '../../../src/engine/client/types.ts';

describe('the health watch', () => {
  it('finds the engine healthy within 10 ms of its first good answer', async () => {
    const bench = new HealthBench('refused');
    await bench.pass(10_000);
    expect(bench.changes).toEqual([]);
    bench.answer = 'healthy';
    await bench.pass(10);
    expect(bench.changes).toEqual(['healthy']);
  });

  it('waits for an answer that takes its time, of an engine that starts as of one that runs', async () => {
    const bench = new HealthBench('healthy');
    await bench.pass(10_000);
    expect(new Set(bench.limitsMs)).toEqual(new Set([3000]));
  });

  it('gives up when the engine is not healthy within its time, and probes no more', async () => {
    const bench = new HealthBench('refused', 5000);
    await bench.pass(4900);
    expect(bench.health.state).toBe('starting');
    await bench.pass(200);
    expect(bench.changes).toEqual(['failed']);
    expect(bench.messages[0]).toContain('VLLM_STARTUP_TIMEOUT');
    bench.answer = 'healthy';
    await bench.pass(60_000);
    expect(bench.changes).toEqual(['failed']);
  });

  it('probes a healthy engine once a second', async () => {
    const bench = new HealthBench('healthy');
    await bench.pass(10_000);
    expect(bench.probes).toBe(11);
  });

  it('is deaf to an answer that the old engine gave before it was started again', async () => {
    const bench = new HealthBench('healthy');
    await bench.pass(10_000);
    const late = Promise.withResolvers<void>();
    bench.delay = late.promise;
    await bench.pass(1000);
    bench.delay = undefined;
    bench.answer = 'refused';
    bench.health.restart();
    late.resolve();
    await bench.pass(1000);
    expect(bench.changes).toEqual(['healthy']);
    expect(bench.timers.size).toBe(1);
  });

  it('starts anew with a new engine', async () => {
    const bench = new HealthBench('healthy', 5000);
    await bench.pass(10_000);
    bench.health.restart();
    expect(bench.health.state).toBe('starting');
    await bench.pass(25);
    expect(bench.changes).toEqual(['healthy', 'healthy']);
    bench.answer = 'refused';
    bench.health.restart(60_000);
    await bench.pass(64_900);
    expect(bench.health.state).toBe('starting');
    await bench.pass(200);
    expect(bench.changes).toEqual(['healthy', 'healthy', 'failed']);
  });

  it('forgives two misses in a row and not a third', async () => {
    const bench = new HealthBench('healthy');
    await bench.pass(0);
    bench.answer = 'unhealthy';
    await bench.pass(2000);
    bench.answer = 'healthy';
    await bench.pass(1000);
    bench.answer = 'unhealthy';
    await bench.pass(2000);
    expect(bench.changes).toEqual(['healthy']);
    await bench.pass(1000);
    expect(bench.changes).toEqual(['healthy', 'unhealthy']);
  });

  it('believes a refused connection at once', async () => {
    const bench = new HealthBench('healthy');
    await bench.pass(0);
    bench.answer = 'refused';
    await bench.pass(1000);
    expect(bench.changes).toEqual(['healthy', 'unhealthy']);
  });

  it('asks at once whether a doubted engine is well, and believes no good answer to an older question', async () => {
    const bench = new HealthBench('healthy');
    const late = Promise.withResolvers<void>();
    await bench.pass(500);
    bench.delay = late.promise;
    await bench.pass(600);
    bench.delay = undefined;
    bench.answer = 'unhealthy';
    bench.health.doubt('a request failed');
    late.resolve();
    await bench.pass(2000);
    expect(bench.changes).toEqual(['healthy', 'doubted', 'unhealthy']);
    bench.answer = 'healthy';
    await bench.pass(1000);
    bench.health.doubt('another one failed');
    expect(bench.health.state).toBe('doubted');
    bench.health.doubt('and one more');
    await bench.pass(0);
    expect(bench.changes).toEqual(['healthy', 'doubted', 'unhealthy', 'healthy', 'doubted', 'healthy']);
    expect(bench.timers.size).toBe(1);
  });

  it('doubts no engine that starts, is unhealthy or watched no more', async () => {
    const bench = new HealthBench('refused');
    bench.health.doubt('too early');
    await bench.pass(1000);
    expect(bench.changes).toEqual([]);
    bench.answer = 'healthy';
    await bench.pass(1000);
    bench.health.stop();
    bench.health.doubt('too late');
    await bench.pass(1000);
    expect(bench.changes).toEqual(['healthy']);
  });

  it('finds it healthy again after one good answer', async () => {
    const bench = new HealthBench('healthy');
    await bench.pass(0);
    bench.answer = 'refused';
    await bench.pass(1000);
    bench.answer = 'healthy';
    await bench.pass(1000);
    expect(bench.changes).toEqual(['healthy', 'unhealthy', 'healthy']);
  });

  it('says nothing after it was stopped, not even of a probe on its way', async () => {
    const bench = new HealthBench('refused');
    await bench.pass(100);
    bench.answer = 'healthy';
    bench.health.stop();
    await bench.pass(10_000);
    expect(bench.changes).toEqual([]);
    expect(bench.timers.size).toBe(0);
  });
});

/** A clock that stands still until told, and an engine that answers as told. */
class HealthBench {
  answer: Probe;
  probes = 0;
  /** What each probe may take. */
  readonly limitsMs: number[] = [];
  /** Answers to probes wait for it. */
  delay: Promise<void> | undefined;
  readonly changes: HealthState[] = [];
  readonly messages: string[] = [];
  readonly timers = new Map<number, { at: number; run: () => void }>();
  readonly health: EngineHealth;
  #now = 0;
  #nextTimer = 1;

  constructor(answer: Probe, startupTimeoutMs = 120_000) {
    this.answer = answer;
    this.health = new EngineHealth({
      startupTimeoutMs,
      probe: async (timeoutMs) => {
        this.probes += 1;
        this.limitsMs.push(timeoutMs);
        const { answer } = this;
        await this.delay;
        return answer;
      },
      clock: {
        now: () => this.#now,
        setTimeout: (run, ms) => {
          this.timers.set(this.#nextTimer, { at: this.#now + ms, run });
          return this.#nextTimer++;
        },
        clearTimeout: (timer) => void this.timers.delete(timer as number),
      },
      onChange: (state, message) => {
        this.changes.push(state);
        this.messages.push(message);
      },
    });
    this.health.start();
  }

  async pass(ms: number): Promise<void> {
    const until = this.#now + ms;
    for (;;) {
      await settled();
      const next = [...this.timers].sort(([, a], [, b]) => a.at - b.at)[0];
      if (!next || next[1].at > until) break;
      this.#now = next[1].at;
      this.timers.delete(next[0]);
      next[1].run();
    }
    this.#now = until;
  }
}

function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
