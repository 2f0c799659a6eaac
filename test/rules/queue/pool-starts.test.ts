import { describe, expect, it } from 'vitest';
import type { PoolStart } from '../../../src/fleet/rpc.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

const ZERO: PoolStart = {
  config_id: 'cfg',
  names: ['tiny'],
  state: 'scaled_to_zero',
  progress: null,
  text: 'a worker will be started',
  wait_ms: 300_000,
  retry_after_seconds: 30,
  outdated: [],
};
const STOPPED: PoolStart = { ...ZERO, state: 'stopped', text: 'the budget of $4.00/h is reached' };

/** @param tellsQueue whether the queue has heard of them before anybody asks */
function queueWith(starts: PoolStart[], tellsQueue = true): QueueHarness {
  const queue = new QueueHarness();
  queue.fleet.starts = starts;
  if (tellsQueue) queue.queue.do('takeStarts', starts);
  return queue;
}

describe('a pool that has no worker but may have one', () => {
  it('is waited for as long as its start may take, whatever name the caller has for it', () => {
    const queue = queueWith([ZERO], false);
    const waiting = ['tiny', 'cfg', 'default', null].map((model) =>
      queue.request({ model, waits_for_start: true }),
    );
    const late = queueWith([ZERO]);
    const [first] = [late.request({ waits_for_start: true })];
    late.advance(299);
    expect(first).toEqual([]);
    late.advance(2);
    expect(first).toMatchObject([
      { reason: 'no_worker', message: expect.stringContaining('a worker will be started') },
    ]);
    queue.advance(200);
    queue.worker('w', { capacity: 4 });
    expect(waiting.flat()).toMatchObject(Array(4).fill({ kind: 'stream', worker_id: 'w' }));
  });

  it('is waited for no longer than its caller says', () => {
    const queue = queueWith([ZERO]);
    const now = queue.request({ wait_for_worker_ms: 0 });
    const soon = queue.request({ wait_for_worker_ms: 5000 });
    const urgent = queue.request({ waits_for_start: true, deadline_ms: 10_000 });
    expect(now).toMatchObject([{ reason: 'no_worker' }]);
    queue.advance(6);
    expect([soon, urgent]).toMatchObject([[{ reason: 'no_worker' }], []]);
    queue.advance(5);
    expect(urgent).toMatchObject([{ kind: 'error', failure: { code: 'deadline' } }]);
  });

  it('is waited for when its last worker is lost under those that wait for a slot', () => {
    const queue = queueWith([ZERO]);
    const worker = queue.worker('w');
    queue.request({ waits_for_start: true });
    const waiting = queue.request({ waits_for_start: true });
    queue.drop(worker);
    queue.advance(60);
    expect(waiting).toEqual([]);
    queue.worker('next');
    expect(waiting).toMatchObject([{ kind: 'stream', worker_id: 'next' }]);
  });

  it('tells its callers what they wait for, until it has a worker', () => {
    const queue = queueWith([ZERO]);
    for (const job_id of ['first', 'second']) queue.request({ job_id, waits_for_start: true });
    expect(queue.queue.read('awaitsStart')).toBe(true);
    queue.queue.do('takeStarts', [{ ...ZERO, state: 'starting', text: 'starting a worker: loading 62 %' }]);
    expect(queue.queue.read('waitingLines')).toEqual([
      { job_ids: ['first', 'second'], start: 'starting a worker: loading 62 %' },
    ]);
    queue.worker('w');
    expect(queue.queue.read('waitingLines')).toEqual([{ job_ids: ['second'], start: null }]);
    expect(queue.queue.read('awaitsStart')).toBe(false);
  });

  it('is asked about as long as none is started, so that the next caller is not turned away for what is over', () => {
    const queue = queueWith([STOPPED]);
    expect(queue.request({ waits_for_start: true })).toMatchObject([{ reason: 'no_worker' }]);
    expect(queue.queue.read('awaitsStart')).toBe(true);
    queue.queue.do('takeStarts', [ZERO]);
    expect(queue.queue.read('awaitsStart')).toBe(false);
  });

  it('takes stored jobs, which wait', () => {
    for (const tellsQueue of [true, false]) {
      const queue = queueWith([ZERO], tellsQueue);
      expect(queue.submit({ config_id: undefined, model: 'tiny' })).toMatchObject([
        { ok: true, job: { config_id: 'cfg', state: 'pending' } },
      ]);
    }
  });

  it('makes "default" ambiguous beside another one, though only one of them has a worker', () => {
    const queue = queueWith([ZERO, { ...ZERO, config_id: 'other', names: ['large'] }]);
    queue.worker('w');
    expect(queue.request({ model: 'default' })).toMatchObject([
      { reason: 'ambiguous_model', message: 'name a model, there are several: tiny, large' },
    ]);
  });

  it('whose workers serve another model than was declared says which', () => {
    const queue = queueWith([{ ...ZERO, names: ['declared'] }]);
    const waiting = queue.request({ model: 'declared', waits_for_start: true });
    queue.worker('w');
    queue.advance(1);
    expect(waiting).toMatchObject([
      { reason: 'unknown_model', message: expect.stringContaining('they serve tiny') },
    ]);
  });
});

describe('a pool that was changed, whose workers serve what they were started with', () => {
  const CHANGED: PoolStart = { ...ZERO, names: ['tiny', 'new'], state: 'starting', outdated: ['old'] };

  it('has callers of the new model wait for a worker that serves it, or told to come back', () => {
    for (const tellsQueue of [true, false]) {
      const queue = queueWith([CHANGED], tellsQueue);
      queue.worker('old');
      expect(queue.request({ model: 'new' })).toMatchObject([
        {
          reason: 'no_worker',
          retry_after_seconds: 5,
          message: expect.stringContaining(CHANGED.text),
        },
      ]);
      const waiting = queue.request({ model: 'new', waits_for_start: true });
      expect(queue.request({ model: 'tiny' })).toMatchObject([{ kind: 'stream', worker_id: 'old' }]);
      queue.advance(60);
      expect(waiting).toEqual([]);
      queue.worker('w', { instance: { models: ['new'] } });
      expect(waiting).toMatchObject([{ kind: 'stream', worker_id: 'w' }]);
    }
  });

  it('tells callers of the model before which models workers serve, and no other', () => {
    const queue = queueWith([CHANGED]);
    const old = queue.worker('old');
    queue.worker('w', { instance: { models: ['new'] } });
    queue.drop(old);
    queue.advance(11);
    expect(queue.request({ model: 'tiny' })).toMatchObject([
      { reason: 'unknown_model', message: expect.stringMatching(/they serve new$/) },
    ]);
    expect(queue.request({ model: 'nope' })).toMatchObject([
      { reason: 'unknown_model', message: expect.stringMatching(/models: new$/) },
    ]);
  });
});

describe('a pool for which no worker is started any more', () => {
  it('is answered at once, with the reason and when to try again', () => {
    for (const tellsQueue of [true, false]) {
      const queue = queueWith([STOPPED], tellsQueue);
      for (const wait_for_worker_ms of [0, 60_000]) {
        expect(queue.request({ waits_for_start: true, wait_for_worker_ms })).toMatchObject([
          {
            reason: 'no_worker',
            message: expect.stringContaining('the budget of $4.00/h is reached'),
            retry_after_seconds: 30,
          },
        ]);
      }
      expect(queue.submit({ config_id: undefined, model: 'tiny' })).toMatchObject([{ ok: true }]);
    }
  });

  it('is answered as soon as that is decided', () => {
    const queue = queueWith([ZERO]);
    const waiting = queue.request({ waits_for_start: true });
    queue.queue.do('takeStarts', [STOPPED]);
    expect(waiting).toMatchObject([{ reason: 'no_worker', message: expect.stringContaining('budget') }]);
  });

  it('is served by the workers that it has all the same, and by one that may be back in a moment', () => {
    const queue = queueWith([STOPPED]);
    const worker = queue.worker('w', { capacity: 2 });
    expect(queue.request({ waits_for_start: true })).toMatchObject([{ kind: 'stream' }]);
    queue.drop(worker);
    const waiting = queue.request({ waits_for_start: true });
    queue.worker('w', { capacity: 2 });
    expect(waiting).toMatchObject([{ kind: 'stream' }]);
  });

  it('is not known any more once the fleet is taken away', () => {
    const queue = queueWith([ZERO]);
    const waiting = queue.request({ waits_for_start: true });
    queue.fleet.starts = [];
    queue.queue.do('takeStarts', []);
    expect(waiting).toMatchObject([{ reason: 'no_worker' }]);
    expect(queue.request({ waits_for_start: true })).toMatchObject([{ reason: 'unknown_model' }]);
  });
});
