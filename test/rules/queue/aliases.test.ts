import { describe, expect, it } from 'vitest';
import { alias, ask, payload, queueWith, worker } from '../../support/aliased-queue.ts';
import type { QueueHarness } from '../../support/queue-harness.ts';

const bodyOf = (job: Record<string, unknown>) => JSON.parse((job.payload as { body: string }).body);

describe('a request for an alias', () => {
  it('goes to the model that it stands for, whose name its body has then', () => {
    const queue = queueWith({ 'gpt-4o': alias('big') });
    const big = worker(queue, 'big');
    const [answer] = ask(queue, 'gpt-4o');
    expect(bodyOf(big.lastJob())).toEqual({ model: 'big', prompt: 'a' });
    expect(answer).toMatchObject({
      kind: 'stream',
      headers: { 'x-served-model': 'big' },
      step: { index: 0, model: 'big', causes: [] },
    });
    expect(answer).not.toMatchObject({ headers: { 'x-fallback': expect.anything() } });
  });

  it('may be for one of QUEUE_MODEL_ALIASES, and the file goes first', () => {
    const queue = queueWith({}, { model_aliases: 'old-name=tiny' });
    const [tiny, big] = [worker(queue, 'tiny'), worker(queue, 'big')];
    ask(queue, 'old-name');
    expect(bodyOf(tiny.lastJob()).model).toBe('tiny');
    queue.queue.do('takeAliases', { 'old-name': alias('big') });
    ask(queue, 'old-name');
    expect(bodyOf(big.lastJob()).model).toBe('big');
  });

  it('goes to the same model over a restart, whose table is on disk', () => {
    const to = [
      { model: 'big', weight: 1 },
      { model: 'small', weight: 1 },
    ];
    const queue = queueWith({ a: alias('big', { to }) });
    const sides = () => {
      worker(queue, 'big', 40);
      worker(queue, 'small', 40);
      return Array.from({ length: 20 }, (_, index) => {
        const [answer] = ask(queue, 'a', { session: `s${index}` });
        return (answer as { worker_id: string }).worker_id;
      });
    };
    const before = sides();
    expect(new Set(before).size).toBe(2);
    queue.restart();
    expect(sides()).toEqual(before);
  });

  it('stays with one model by its session, by its tenant or not at all', () => {
    const to = [
      { model: 'big', weight: 1 },
      { model: 'small', weight: 1 },
    ];
    const queue = queueWith(
      Object.fromEntries(
        (['session', 'tenant', 'request'] as const).map((by) => [by, alias('big', { to, split: { by } })]),
      ),
    );
    worker(queue, 'big', 200);
    worker(queue, 'small', 200);
    const sides = (name: string, more: (index: number) => object) =>
      new Set(
        Array.from(
          { length: 20 },
          (_, index) => (ask(queue, name, more(index))[0] as { worker_id: string }).worker_id,
        ),
      ).size;
    expect(sides('session', (index) => ({ session: 's', tenant: `t${index}` }))).toBe(1);
    expect(sides('session', () => ({ tenant: 't' }))).toBe(1);
    expect(sides('session', (index) => ({ session: `s${index}`, tenant: 't' }))).toBe(2);
    expect(sides('tenant', (index) => ({ session: `s${index}`, tenant: 't' }))).toBe(1);
    expect(sides('request', () => ({ session: 's', tenant: 't' }))).toBe(2);
  });

  it('passes over a step that has no worker, nor gets one, where the alias says so', () => {
    const fallBack = { then: ['small'] };
    const queue = queueWith({
      a: alias('big', { ...fallBack, on: ['no_worker'] }),
      b: alias('big', { ...fallBack, on: ['failed'] }),
    });
    worker(queue, 'small');
    const [answer] = ask(queue, 'a');
    expect(answer).toMatchObject({ headers: { 'x-served-model': 'small', 'x-fallback': 'no_worker' } });
    expect(ask(queue, 'b')).toMatchObject([{ kind: 'refused', reason: 'unknown_model' }]);
    const records = queue.queue.takeEnded();
    expect(records).toMatchObject([{ model: 'big', alias: 'b', fallback: null, outcome: 'rejected' }]);
    worker(queue, 'big');
    expect(ask(queue, 'a')).toMatchObject([{ headers: { 'x-served-model': 'big' } }]);
  });

  it('is counted by its alias and cause once it has ended at a fall-back, however often it was asked again', () => {
    const queue = queueWith({ a: alias('big', { then: ['small'], on: ['no_worker'] }) });
    const small = worker(queue, 'small');
    const end = (frame: object) => {
      const { job_id, fence_token } = small.lastJob();
      queue.say(small, { job_id, fence_token, ...frame });
    };
    const counts = () => queue.queue.read('metrics').fall_backs;
    ask(queue, 'a', { job_id: 'again' });
    end({ type: 'job_error', error: 'no', code: 'engine_error', retryable: true });
    ask(queue, 'a', {
      job_id: 'again',
      earlier: { attempts: 1, elapsed_ms: 0, fence_token: 1, failed_at: [] },
    });
    expect(counts()).toEqual([]);
    end({ type: 'job_result', result: {} });
    expect(counts()).toEqual([{ alias: 'a', cause: 'no_worker', requests: 1 }]);
    worker(queue, 'big');
    ask(queue, 'a');
    queue.advance(60);
    expect(counts()).toEqual([{ alias: 'a', cause: 'no_worker', requests: 1 }]);
  });

  it('is told of the first of its steps that had a worker where none has, once', () => {
    const queue = queueWith({ a: alias('gone', { then: ['big', 'small'], on: ['no_worker'] }) });
    for (const model of ['big', 'small']) queue.drop(worker(queue, model));
    queue.advance(60);
    const step = { index: 1, model: 'big', causes: [] };
    expect(ask(queue, 'a')).toMatchObject([{ kind: 'refused', reason: 'no_worker', step }]);
    const id = queue.job({
      config_id: undefined,
      job_type: 'engine_request',
      payload: payload('a'),
      model: 'a',
    });
    expect(queue.queue.read('get', id, null)).toMatchObject({ config_id: 'pool-big', state: 'pending' });
  });

  it('is listed for callers who ask for a name that there is not', () => {
    const queue = queueWith({ a: alias('big'), b: alias('gone') });
    worker(queue, 'big');
    expect(ask(queue, 'aa')).toMatchObject([
      { kind: 'refused', message: expect.stringMatching(/"aa" is not served here; models: big, a$/) },
    ]);
  });

  it('is told of its own model where none of its steps has a worker', () => {
    const queue = queueWith({ a: alias('big', { then: ['small'], on: ['no_worker'] }) });
    expect(ask(queue, 'a')).toMatchObject([
      { kind: 'refused', message: expect.stringContaining('"big" is not served here') },
    ]);
  });
});

describe('a stored job for an alias', () => {
  const stored = (queue: QueueHarness, model: string, more: object = {}) =>
    queue.job({ config_id: undefined, job_type: 'engine_request', payload: payload(model), model, ...more });

  it('is named the model when it is sent, and keeps the payload that was submitted', () => {
    const queue = queueWith({ a: alias('big') });
    const big = worker(queue, 'big');
    const id = stored(queue, 'a', { id: 'job' });
    expect(bodyOf(big.lastJob()).model).toBe('big');
    expect(stored(queue, 'a', { id: 'job' })).toBe(id);
  });

  it('may name its pool, whose model it gets then', () => {
    const to = [
      { model: 'big', weight: 1 },
      { model: 'small', weight: 1 },
    ];
    const queue = queueWith({ a: alias('big', { to, on: ['no_worker'] }) });
    const small = worker(queue, 'small', 20);
    worker(queue, 'big', 20);
    for (let index = 0; index < 10; index++)
      stored(queue, 'a', { config_id: 'pool-small', session: `s${index}` });
    expect(small.frames('job').map((job) => bodyOf(job).model)).toEqual(Array(10).fill('small'));
  });

  it('goes where the alias leads when it is sent, though it was submitted before', () => {
    const queue = queueWith({ a: alias('big') });
    const big = worker(queue, 'big', 1);
    const small = worker(queue, 'small', 1);
    stored(queue, 'big');
    const id = stored(queue, 'a');
    expect(queue.state(id)).toBe('pending');
    queue.queue.do('takeAliases', { a: alias('small') });
    queue.advance(6);
    const first = big.lastJob();
    queue.say(big, {
      type: 'job_result',
      job_id: first.job_id,
      fence_token: first.fence_token,
      result: {},
    });
    expect(small.lastJob()).toMatchObject({ job_id: id });
    expect(bodyOf(small.lastJob()).model).toBe('small');
    expect(queue.queue.read('poolJobs', 'pool-big')).toMatchObject({ in_queue: 0 });
  });

  it('leaves a pool whose last worker is gone, where the alias says so', () => {
    const fallBack = { then: ['small'] };
    const queue = queueWith({
      a: alias('big', { ...fallBack, on: ['no_worker'] }),
      b: alias('big', { ...fallBack, on: ['failed'] }),
    });
    const big = worker(queue, 'big', 1);
    stored(queue, 'big');
    const [goes, stays] = [stored(queue, 'a'), stored(queue, 'b')];
    queue.drop(big);
    const small = worker(queue, 'small', 4);
    queue.advance(60);
    expect(small.frames('job').map(({ job_id }) => job_id)).toEqual([goes]);
    expect(queue.state(stays)).toBe('pending');
    queue.restart();
    expect(queue.state(stays)).toBe('pending');
  });

  it('runs in the pool that its caller named, though no worker was there when it came', () => {
    const to = [
      { model: 'big', weight: 1 },
      { model: 'small', weight: 1 },
    ];
    const queue = queueWith({ a: alias('big', { to }) });
    for (let index = 0; index < 10; index++)
      stored(queue, 'a', { config_id: 'pool-small', session: `s${index}` });
    const small = worker(queue, 'small', 20);
    expect(small.frames('job').map((job) => bodyOf(job).model)).toEqual(Array(10).fill('small'));
    const { steps } = queue.queue.read('ledger', String(small.lastJob().job_id), null)!;
    expect(steps.map(({ detail }) => detail)).toContain('the alias a means small');
  });

  it('does not leave the pool that its caller named', () => {
    const queue = queueWith({ a: alias('big') });
    worker(queue, 'big', 1);
    const small = worker(queue, 'small', 1);
    stored(queue, 'big');
    const id = stored(queue, 'a', { config_id: 'pool-big' });
    queue.queue.do('takeAliases', { a: alias('small') });
    queue.advance(60);
    expect(small.frames('job')).toEqual([]);
    expect(queue.state(id)).toBe('pending');
  });

  it('takes the model that is left in the pool that its caller named', () => {
    const to = [
      { model: 'big', weight: 1 },
      { model: 'small', weight: 1 },
    ];
    const queue = queueWith({ a: alias('big', { to }) });
    const inPool = (model: string) =>
      queue.worker(`w-${model}`, { config_id: 'pool', capacity: 1, instance: { models: [model] } });
    const big = inPool('big');
    const id = stored(queue, 'a', { config_id: 'pool' });
    expect(bodyOf(big.lastJob()).model).toBe('big');
    const small = inPool('small');
    queue.drop(big);
    queue.advance(60);
    expect(small.lastJob()).toMatchObject({ job_id: id });
    expect(bodyOf(small.lastJob()).model).toBe('small');
    const { steps } = queue.queue.read('ledger', id, null)!;
    expect(steps.map(({ detail }) => detail)).toContain('the alias a means small, after no_worker');
  });

  it('stays where a worker can be started, also while a queue that starts again does not know that yet', () => {
    const queue = queueWith({ a: alias('big', { then: ['small'], on: ['no_worker'] }) });
    const starts = [
      {
        config_id: 'pool-big',
        names: ['big'],
        state: 'scaled_to_zero' as const,
        progress: null,
        text: 'no worker runs',
        wait_ms: 600_000,
        retry_after_seconds: 0,
        outdated: [],
      },
    ];
    queue.queue.do('takeStarts', starts);
    const id = stored(queue, 'a');
    queue.restart();
    const small = worker(queue, 'small');
    queue.advance(20);
    expect(small.frames('job')).toEqual([]);
    queue.queue.do('takeStarts', starts);
    queue.advance(20);
    expect(small.frames('job')).toEqual([]);
    queue.queue.do('takeStarts', []);
    queue.advance(20);
    expect(small.frames('job').map(({ job_id }) => job_id)).toEqual([id]);
  });

  it('leaves a pool though more jobs than are looked at together stay there', () => {
    const queue = queueWith({
      a: alias('big', { then: ['small'], on: ['no_worker'] }),
      b: alias('big'),
    });
    const big = worker(queue, 'big', 1);
    stored(queue, 'big');
    for (let index = 0; index < 1001; index++) stored(queue, 'b');
    const id = stored(queue, 'a');
    const small = worker(queue, 'small');
    queue.drop(big);
    queue.advance(60);
    expect(small.frames('job').map(({ job_id }) => job_id)).toEqual([id]);
  });

  it('of a token for certain models may wait only in a pool that serves one of its models', () => {
    const queue = queueWith({ a: alias('big', { then: ['small'], on: ['no_worker'] }) });
    for (const model of ['big', 'small', 'secret']) worker(queue, model);
    const answer = (config_id: string) =>
      queue.submit({
        job_type: 'engine_request',
        payload: payload('a'),
        model: 'a',
        config_id,
        model_only: true,
      });
    expect(answer('pool-secret')).toMatchObject([{ ok: false, reason: 'unknown_pool' }]);
    expect(answer('pool-empty')).toMatchObject([{ ok: false, reason: 'unknown_pool' }]);
    expect(answer('pool-small')).toMatchObject([{ ok: true }]);
    expect(answer('pool-big')).toMatchObject([{ ok: true }]);
  });
});
