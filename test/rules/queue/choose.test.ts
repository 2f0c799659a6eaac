import { describe, expect, it } from 'vitest';
import { MOST_PASSED_OVER, type Scorer, Scorers } from '../../../src/queue/dispatch/choose.ts';
import { newWorker, type Worker } from '../../../src/queue/state/worker.ts';
import type { Connection, Session } from '../../../src/queue/store/ports.ts';

/** The choice of a worker and of a job, by scorers that are made up. */

function worker(worker_id: string, running = 0, capacity = 10): Worker {
  const session = { worker_id, config_id: 'cfg', capacity, paused: false, draining: false } as Session;
  const made = newWorker({} as Connection, session, { models: [], adapters: null });
  for (let n = 0; n < running; n++) made.running.set(`${worker_id}-${n}`, n);
  return made;
}

const any = () => true;
const scoring = (scores: Record<string, number>): Scorer => ({
  differs: any,
  score: ({ session }) => scores[session.worker_id] ?? 0,
});
const preferring = (...ids: string[]): Scorer => ({
  prefers: ({ session }) => ids.includes(session.worker_id),
});

function chosen(
  scorers: readonly Scorer[],
  workers: readonly Worker[],
  fits: (worker: Worker) => boolean = any,
) {
  return new Scorers(scorers).chooseWorker(workers, fits)?.session.worker_id ?? null;
}

describe('a worker is chosen', () => {
  it('among those that fit and have a free slot, or none is', () => {
    expect(chosen([], [worker('full', 10)])).toBeNull();
    expect(chosen([], [worker('other')], () => false)).toBeNull();
    expect(chosen([], [worker('full', 10), worker('busy', 9)])).toBe('busy');
  });

  it('without being scored where it is the only one', () => {
    const fails = () => {
      throw new Error('scored');
    };
    expect(chosen([{ prefers: fails, score: fails }], [worker('a'), worker('full', 10)])).toBe('a');
  });

  it('for its load, the first of equals, where no scorer tells the workers apart', () => {
    expect(chosen([scoring({})], [worker('a', 3), worker('b', 1), worker('c', 1)])).toBe('b');
  });

  it('for its score, by the first scorer that tells the workers apart', () => {
    const workers = [worker('a'), worker('b'), worker('c')];
    expect(chosen([scoring({ b: 1, c: 1 }), scoring({ a: 9, c: 1 })], workers)).toBe('c');
    expect(chosen([scoring({ b: 1, c: 1 }), scoring({ a: 9 })], [...workers, worker('d', 1)])).toBe('b');
  });

  it('for its score by a scorer that does not say of which jobs it tells workers apart', () => {
    const score: Scorer['score'] = ({ session }) => (session.worker_id === 'b' ? 1 : 0);
    expect(chosen([{ score }], [worker('a'), worker('b')])).toBe('b');
  });

  it('for its score only while it is not much busier than the least loaded one', () => {
    expect(chosen([scoring({ busy: 1 })], [worker('idle', 1), worker('busy', 4)])).toBe('busy');
    expect(chosen([scoring({ busy: 1 })], [worker('idle', 1), worker('busy', 5)])).toBe('idle');
  });

  it('however busy, where it is preferred; a preference that nobody meets is none', () => {
    const workers = [worker('idle'), worker('busy', 9), worker('busier', 8)];
    expect(chosen([preferring('busy', 'nobody')], workers)).toBe('busy');
    expect(chosen([preferring('busy', 'busier'), preferring('idle', 'busy')], workers)).toBe('busy');
    expect(chosen([preferring('nobody'), preferring('busier')], workers)).toBe('busier');
  });
});

it('a job may differ between workers where one scorer says so', () => {
  const wants = { model: null, extras: {} };
  expect(new Scorers([{}, { differs: () => false }]).mayDiffer(worker('a'), wants)).toBe(false);
  expect(new Scorers([{}, { differs: () => true }]).mayDiffer(worker('a'), wants)).toBe(true);
});

it('a slot goes to the first job that does no better elsewhere, and those before it are passed over', () => {
  const job = (model: string) => ({ model, extras: {}, passed_over: 0 });
  const line = [job('elsewhere'), job('here'), job('here')];
  const [here, rival] = [worker('here'), worker('elsewhere')];
  const scorer: Scorer = {
    differs: any,
    score: ({ session }, { model }) => (session.worker_id === model ? 1 : 0),
  };
  expect(new Scorers([scorer]).chooseWaiting(line, here, [rival])).toBe(line[1]);
  expect(line.map(({ passed_over }) => passed_over)).toEqual([1, 0, 0]);
  line[0]!.passed_over = MOST_PASSED_OVER;
  expect(new Scorers([scorer]).chooseWaiting(line, here, [rival])).toBe(line[0]);
});
