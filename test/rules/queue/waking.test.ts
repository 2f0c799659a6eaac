import { describe, expect, it } from 'vitest';
import { WAKE_AFTER_MS } from '../../../src/queue/dispatch/waking.ts';
import { result } from '../../support/job-frames.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

const ids = (worker: FakeConnection) => worker.frames('job').map(({ job_id }) => job_id);
const WAITS = { wait_for_slot_ms: 60_000 };

function tell(queue: QueueHarness, worker: FakeConnection, awaits_turn: boolean): void {
  const gauges = { running: 0, waiting: 0, kv_cache_usage: 0 };
  const slots_free = 2 - ids(worker).length;
  queue.say(worker, { type: 'load', ...gauges, slots_free, ...(awaits_turn && { awaits_turn }) });
}

/** Two workers of one model, of two slots each; the first one's engine sleeps. */
function pair(queue = new QueueHarness()) {
  const asleep = queue.worker('asleep', { capacity: 2 });
  const awake = queue.worker('awake', { capacity: 2 });
  tell(queue, asleep, true);
  return { queue, asleep, awake };
}

describe('a job for a model that is awake at one worker and sleeps at another', () => {
  it.each(['waiting', 'stored'])('goes to the one that is awake (%s)', (mode) => {
    const { queue, asleep, awake } = pair();
    for (let n = 0; n < 2; n++) mode === 'stored' ? queue.job() : queue.request(WAITS);
    expect([ids(asleep).length, ids(awake).length]).toEqual([0, 2]);
  });

  it('goes there though its prompt was computed where it sleeps now', () => {
    const queue = new QueueHarness();
    const one = queue.worker('one', { capacity: 2 });
    const other = queue.worker('other', { capacity: 2 });
    const prefix = { session: 0, hashes: [1, 2, 3], bytes: 1536 };
    queue.request({ job_id: 'first', prefix });
    queue.say(one, result(one.lastJob()));
    tell(queue, one, true);
    queue.request({ job_id: 'again', prefix });
    // Awake again, it has nothing of it any more.
    queue.say(other, result(other.lastJob()));
    tell(queue, one, false);
    queue.request({ job_id: 'third', prefix });
    expect([ids(one), ids(other)]).toEqual([['first'], ['again', 'third']]);
  });

  it.each(['waiting', 'stored'])('waits a little for a slot of it (%s)', (mode) => {
    const { queue, asleep, awake } = pair();
    for (let n = 0; n < 3; n++) mode === 'stored' ? queue.job() : queue.request(WAITS);
    queue.advance(WAKE_AFTER_MS / 1000 - 0.1);
    expect([ids(asleep).length, ids(awake).length]).toEqual([0, 2]);
    queue.say(awake, result(awake.lastJob()));
    queue.advance(WAKE_AFTER_MS / 1000);
    expect([ids(asleep).length, ids(awake).length]).toEqual([0, 3]);
  });

  it.each(['waiting', 'stored'])('wakes the other when it has waited for that long (%s)', (mode) => {
    const { queue, asleep } = pair();
    for (let n = 0; n < 3; n++) mode === 'stored' ? queue.job() : queue.request(WAITS);
    queue.advance(WAKE_AFTER_MS / 1000);
    expect(ids(asleep)).toHaveLength(1);
    const { steps } = queue.queue.read('ledger', String(ids(asleep)[0]), null)!;
    expect(steps.filter(({ step }) => step === 'dispatched')).toMatchObject([
      { worker_id: 'asleep', detail: 'its engine sleeps, and waits for its turn' },
    ]);
    // Those that come after it are judged for themselves.
    mode === 'stored' ? queue.job() : queue.request(WAITS);
    expect(ids(asleep)).toHaveLength(1);
    queue.advance(WAKE_AFTER_MS / 1000);
    expect(ids(asleep)).toHaveLength(2);
  });

  it('wakes the other at once where its caller would be turned away otherwise', () => {
    const { queue, asleep } = pair();
    for (let n = 0; n < 3; n++) queue.request({ wait_for_slot_ms: 0 });
    expect(ids(asleep)).toHaveLength(1);
  });

  it('wakes the other when the awake one takes nothing any more', () => {
    const { queue, asleep, awake } = pair();
    queue.say(awake, { type: 'drain' });
    queue.request(WAITS);
    expect(ids(asleep)).toHaveLength(1);
  });

  it('of a batch leaves the awake one a slot for what people wait for', () => {
    const { queue, asleep, awake } = pair();
    for (let n = 0; n < 4; n++) queue.job({ priority: -1 });
    expect([ids(asleep).length, ids(awake).length]).toEqual([0, 1]);
    queue.request(WAITS);
    expect(ids(awake)).toHaveLength(2);
  });
});

describe('a job whose model sleeps everywhere', () => {
  it.each(['waiting', 'stored'])('is given to a worker at once (%s)', (mode) => {
    const queue = new QueueHarness();
    const worker = queue.worker('asleep', { capacity: 2 });
    tell(queue, worker, true);
    mode === 'stored' ? queue.job() : queue.request(WAITS);
    expect(ids(worker)).toHaveLength(1);
  });

  it('does not look at workers that serve another model', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('asleep', { capacity: 2 });
    tell(queue, worker, true);
    queue.worker('other', { config_id: 'other', instance: { id: 'other', models: ['other'] } });
    queue.request({ ...WAITS, model: 'tiny' });
    expect(ids(worker)).toHaveLength(1);
  });
});
