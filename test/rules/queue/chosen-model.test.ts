import { describe, expect, it } from 'vitest';
import { alias, queueWith, worker } from '../../support/aliased-queue.ts';
import type { QueueHarness } from '../../support/queue-harness.ts';

describe('the model of a job whose payload lies in a file', () => {
  const aliases = {
    a: alias('big', {
      to: [
        { model: 'big', weight: 1 },
        { model: 'small', weight: 1 },
      ],
      on: ['no_worker'],
    }),
  };
  const choose = (queue: QueueHarness, id: string, more: object = {}) =>
    queue.queue.read('chosenModel', { model: 'a', ...more }, id);

  it('is one that the pool serves which its caller named', () => {
    const queue = queueWith(aliases);
    for (const model of ['big', 'small']) worker(queue, model);
    for (let index = 0; index < 10; index++)
      expect(choose(queue, `job-${index}`, { config_id: 'pool-small' })).toBe('small');
  });

  it('stays the same where the job is submitted again', () => {
    const queue = queueWith(aliases);
    const small = worker(queue, 'small');
    worker(queue, 'big');
    const ids = Array.from({ length: 20 }, (_, index) => `job-${index}`);
    const id = ids.find((id) => choose(queue, id) === 'small')!;
    queue.job({ id, config_id: undefined, model: 'small' });
    queue.drop(small);
    queue.advance(30);
    const known = [['small', { kind: 'unknown', models: '', pools: '' }]];
    expect(choose(queue, 'another job', { known })).toBe('big');
    expect(choose(queue, id, { known })).toBe('small');
  });

  it('is a fall-back where no pool is known for the first', () => {
    const queue = queueWith({ a: alias('big', { then: ['small'], on: ['no_worker'] }) });
    worker(queue, 'small');
    expect(choose(queue, 'job')).toMatchObject({ kind: 'unserved', models: ['big'] });
    const known = [['big', { kind: 'unknown', models: '', pools: '' }]];
    expect(choose(queue, 'job', { known })).toBe('small');
  });
});
