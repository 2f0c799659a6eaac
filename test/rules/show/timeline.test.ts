import { describe, expect, it } from 'vitest';
import type { LedgerStep } from '../../../src/protocol/jobs.ts';
import { ticksOf, timelineOf } from '../../../src/show/timeline.ts';

/** A ledger, its times in ms after the submission. */
function ledger(...steps: [at: number, step: string, worker?: string, detail?: string][]): LedgerStep[] {
  let attempt = 0;
  return steps.map(([at, step, worker_id = null, detail = null]) => {
    if (step === 'dispatched') attempt += 1;
    return { at: new Date(at).toISOString(), step, attempt, fence_token: attempt, worker_id, detail };
  });
}

const shown = (steps: LedgerStep[], now: number) =>
  timelineOf(steps, now)?.lanes.map(({ worker_id, spans, end }) => [
    worker_id,
    spans.map(({ activity, from, to }) => `${activity} ${from}-${to}`).join(', '),
    end?.step ?? null,
  ]);

describe('a job on its timeline', () => {
  it('ends with its last attempt where that was one failure too many', () => {
    const steps = ledger(
      [0, 'submitted'],
      [10, 'dispatched', 'a'],
      [50, 'attempt_failed', 'a', 'engine_refused: too long; not tried again'],
      [51, 'settled', undefined, 'failed: engine_refused: too long'],
    );
    expect(shown(steps, 5000)).toEqual([['a', 'wait 0-10, run 10-50', 'attempt_failed']]);
  });

  it('waits, reads its prompt and answers', () => {
    const steps = ledger(
      [0, 'submitted'],
      [100, 'dispatched', 'w'],
      [400, 'first_token', 'w'],
      [900, 'settled', 'w'],
    );
    expect(shown(steps, 5000)).toEqual([['w', 'wait 0-100, prefill 100-400, decode 400-900', 'settled']]);
  });

  it('has a lane for each attempt, and between them it waits', () => {
    const steps = ledger(
      [0, 'submitted'],
      [10, 'dispatched', 'a'],
      [50, 'attempt_failed', 'a', 'it broke'],
      [80, 'dispatched', 'b'],
      [90, 'released', 'b'],
      [95, 'dispatched', 'a'],
      [120, 'settled', 'a'],
      [130, 'refused_stale', 'b'],
    );
    expect(shown(steps, 5000)).toEqual([
      ['a', 'wait 0-10, run 10-50', 'attempt_failed'],
      ['b', 'wait 50-80, run 80-90', 'released'],
      ['a', 'wait 90-95, run 95-120', 'settled'],
    ]);
    expect(timelineOf(steps, 5000)).toMatchObject({ from: 0, to: 120, repeatsWorker: true });
  });

  it('tells from which worker its answer moved, whatever the queue heard of that one before', () => {
    const why = 'from a at token 131: the worker released the job: draining';
    const begin: Parameters<typeof ledger> = [
      [0, 'submitted'],
      [10, 'dispatched', 'a'],
      [40, 'first_token', 'a'],
    ];
    const rest: Parameters<typeof ledger> = [
      [95, 'dispatched', 'b'],
      [99, 'first_token', 'b'],
      [120, 'settled', 'b'],
    ];
    const moved = ledger(...begin, [90, 'moved', undefined, why], ...rest);
    expect(shown(moved, 5000)).toEqual([
      ['a', 'wait 0-10, prefill 10-40, decode 40-90', 'moved'],
      ['b', 'wait 90-95, prefill 95-99, decode 99-120', 'settled'],
    ]);
    expect(timelineOf(moved, 5000)?.lanes[0]?.end?.detail).toBe(why);
    const released = ledger(...begin, [80, 'released', 'a'], [90, 'moved', undefined, why], ...rest);
    expect(shown(released, 5000)).toEqual([
      ['a', 'wait 0-10, prefill 10-40, decode 40-80', 'moved'],
      ['b', 'wait 80-95, prefill 95-99, decode 99-120', 'settled'],
    ]);
  });

  it('goes on until now where it is not over', () => {
    expect(shown(ledger([0, 'submitted']), 700)).toEqual([[null, 'wait 0-700', null]]);
    const running = ledger([0, 'submitted'], [10, 'dispatched', 'w'], [40, 'disconnected', 'w']);
    expect(shown(running, 700)).toEqual([['w', 'wait 0-10, run 10-700', null]]);
  });

  it('ends without a worker, and begins again when its caller asks for that', () => {
    expect(shown(ledger([0, 'submitted'], [60, 'expired']), 700)).toEqual([[null, 'wait 0-60', 'expired']]);
    const again = ledger(
      [0, 'submitted'],
      [60, 'expired'],
      [90, 'retried'],
      [95, 'dispatched', 'w'],
      [99, 'settled', 'w'],
    );
    expect(shown(again, 700)).toEqual([
      [null, 'wait 0-60', 'expired'],
      ['w', 'wait 90-95, run 95-99', 'settled'],
    ]);
  });

  it('has some round ticks, whatever its length', () => {
    expect(ticksOf(9000)).toEqual([0, 2000, 4000, 6000, 8000]);
    for (const length of [1, 7, 999, 65_432, 86_400_000]) {
      expect(ticksOf(length).length).toBeGreaterThan(1);
      expect(ticksOf(length).length).toBeLessThanOrEqual(7);
    }
  });
});
