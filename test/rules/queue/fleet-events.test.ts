import { describe, expect, it } from 'vitest';
import { bounds } from '../../../src/protocol/index.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

const HOUR_S = 3600;
const DAY_S = 24 * HOUR_S;
const modelsKnown = (queue: QueueHarness) => queue.fleet.rules.models.all().map(({ id }) => id);
const messageOf = (answers: object[]) => String((answers[0] as { message?: string }).message);

describe('the fleet object', () => {
  it('remembers few of 20,000 junk names of one worker, and errors stay short', () => {
    const queue = new QueueHarness();
    queue.worker('good');
    for (let n = 0; n < 20; n++) {
      const models = Array.from({ length: 1000 }, (_, at) => `junk-${n}-${at}-${'x'.repeat(400)}`);
      queue.drop(queue.worker('bad', { config_id: `junk-${n}`, instance: { models } }));
      queue.drop(
        queue.worker('bad', {
          config_id: 'bad',
          instance: { models: models.map((name) => name.slice(0, 200)) },
        }),
      );
    }
    queue.advance(11);
    expect(modelsKnown(queue).length).toBeLessThanOrEqual(1 + bounds.KNOWN_MODELS_PER_WORKER);
    const bad = queue.fleet.workers().find(({ worker_id }) => worker_id === 'bad');
    expect(bad?.instance?.models).toHaveLength(bounds.KNOWN_MODELS_PER_WORKER);
    queue.worker('bad', { instance: { models: Array.from({ length: 60 }, (_, at) => `junk-${at}`) } });
    const refused = queue.request({ model: 'huge' });
    expect(refused).toMatchObject([{ reason: 'unknown_model' }]);
    expect(messageOf(refused)).toMatch(/ … and \d+ more$/);
    expect(messageOf(refused).length).toBeLessThan(2000);
    const unknown = queue.submit({ config_id: undefined, model: 'y'.repeat(100_000) });
    expect(unknown).toMatchObject([{ reason: 'unknown_pool' }]);
    expect(messageOf(unknown).length).toBeLessThan(2000);
  });

  it('does not remember names longer than any model has, but the pool', () => {
    const queue = new QueueHarness();
    queue.worker('w', { instance: { models: ['x'.repeat(bounds.MODEL_NAME_CHARACTERS + 1)] } });
    expect(modelsKnown(queue)).toEqual(['cfg']);
  });

  it('knows the models of a worker that is connected for long, and forgets it long after it left', () => {
    const queue = new QueueHarness({ retention_seconds: 4 * DAY_S });
    const worker = queue.worker('w');
    queue.advance(3 * DAY_S);
    expect(modelsKnown(queue)).toEqual(['tiny']);
    queue.drop(worker);
    queue.advance(4 * DAY_S + 1);
    expect(queue.database.prepare('SELECT * FROM sessions').all()).toEqual([]);
  });

  it('hears of workers whose connection went with the process of the queue', () => {
    const queue = new QueueHarness();
    queue.worker('w');
    queue.restart();
    expect(queue.fleet.workers()).toMatchObject([
      { worker_id: 'w', disconnected: { reason: 'the queue was down' } },
    ]);
    queue.worker('w');
    queue.hibernate();
    expect(queue.fleet.workers()).toMatchObject([{ worker_id: 'w', disconnected: null }]);
  });
});

describe('a model without a worker', () => {
  it('is known after a restart of the queue too: 503 once its worker is not back in time, or the caller waits for one', () => {
    const queue = new QueueHarness();
    queue.worker('w');
    queue.restart();
    queue.advance(11);
    expect(queue.request()).toMatchObject([{ reason: 'no_worker' }]);
    expect(queue.submit({ config_id: undefined, model: 'tiny' })).toMatchObject([
      { ok: true, job: { config_id: 'cfg' } },
    ]);
    const waiting = queue.request({ wait_for_worker_ms: 5000 });
    queue.worker('w', { capacity: 2 });
    expect(waiting).toMatchObject([{ kind: 'stream', worker_id: 'w' }]);
  });

  it('says how to wait for one to a caller that did not say how long it waits', () => {
    const queue = new QueueHarness();
    queue.drop(queue.worker('w'));
    queue.advance(11);
    const said = (waits_for_start: boolean) =>
      queue.request({ waits_for_start }).map((answer) => ('message' in answer ? answer.message : ''));
    const at = 'no worker for the model "tiny" is connected at the moment: retry';
    expect(said(true)).toEqual([`${at}, or wait for one with the header X-Queue-Wait: 30`]);
    expect(said(false)).toEqual([at]);
  });

  it('is forgotten a day after the last one left', () => {
    const queue = new QueueHarness();
    queue.drop(queue.worker('w'));
    queue.advance(DAY_S - 1);
    expect(queue.request()).toMatchObject([{ reason: 'no_worker' }]);
    queue.advance(1);
    expect(queue.request()).toMatchObject([{ reason: 'unknown_model' }]);
    expect(queue.submit({ config_id: undefined, model: 'tiny' })).toMatchObject([{ reason: 'no_pool' }]);
  });

  it('may still be waited for while nobody knows it', () => {
    const queue = new QueueHarness();
    const waiting = queue.request({ wait_for_worker_ms: 5000 });
    const hasty = queue.request({ wait_for_worker_ms: 2000 });
    queue.advance(3);
    expect([waiting, hasty]).toMatchObject([[], [{ reason: 'unknown_model' }]]);
    queue.worker('w');
    expect(waiting).toMatchObject([{ kind: 'stream' }]);
  });
});

describe('"default"', () => {
  it('means the only pool with workers, whatever others are known', () => {
    const queue = new QueueHarness();
    queue.drop(queue.worker('old', { config_id: 'cfg-old', instance: { models: ['old'] } }));
    const during = queue.request({ model: 'default' });
    expect(during).toMatchObject([]);
    queue.advance(11);
    queue.worker('new', { config_id: 'cfg-new', capacity: 4 });
    expect(queue.request({ model: 'default' })).toMatchObject([{ kind: 'stream', worker_id: 'new' }]);
    expect(queue.submit({ config_id: undefined })).toMatchObject([
      { ok: true, job: { config_id: 'cfg-new' } },
    ]);
  });

  it('is a question while several have none', () => {
    const queue = new QueueHarness();
    for (const id of ['a', 'b'])
      queue.drop(queue.worker(id, { config_id: `cfg-${id}`, instance: { models: [id] } }));
    queue.advance(11);
    expect(queue.request({ model: null })).toMatchObject([{ reason: 'ambiguous_model' }]);
    expect(queue.submit({ config_id: undefined })).toMatchObject([{ reason: 'unknown_pool' }]);
    const back = queue.worker('a', { config_id: 'cfg-a', instance: { models: ['a'] } });
    expect(queue.request({ model: null })).toMatchObject([{ kind: 'stream', worker_id: 'a' }]);
    expect(back.frames('job')).toHaveLength(1);
  });
});
