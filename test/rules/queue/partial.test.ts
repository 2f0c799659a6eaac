import { expect, it } from 'vitest';
import { bounds, type LedgerView } from '../../../src/protocol/index.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';
import { usage } from '../../support/usage-bench.ts';

/** What is kept of a stored job that its worker did not finish. */
const PARTIAL = {
  prompt_tokens: 2,
  ids: [1, 2, 11, 12, 13],
  role: 'assistant',
  text: 'Once',
  reasoning: '',
  logprobs: null,
};
const LONGER = { ...PARTIAL, ids: [...PARTIAL.ids, 14], text: 'Once upon' };
const LOST = { type: 'job_error', error: 'gone', code: 'engine_died', retryable: true };

function end(queue: QueueHarness, worker: FakeConnection, frame: object): void {
  const { job_id, fence_token } = worker.lastJob();
  queue.say(worker, { job_id, fence_token, ...frame });
}

function release(queue: QueueHarness, worker: FakeConnection, partial: object = PARTIAL): void {
  queue.say(worker, { type: 'drain' });
  end(queue, worker, { type: 'job_release', reason: 'draining', partial });
}

function kept(queue: QueueHarness, id: string): unknown {
  return queue.database.prepare('SELECT partial FROM jobs WHERE id = ?').get(id)?.partial;
}

function moves(queue: QueueHarness, id: string): unknown[] {
  const { steps } = queue.queue.read('ledger', id, null) as LedgerView;
  return steps.filter(({ step }) => step === 'moved').map(({ detail }) => detail);
}

it('goes with the job to the next worker, and ends with the job', () => {
  const queue = new QueueHarness();
  const leaving = queue.worker('leaving');
  const id = queue.job();
  expect(leaving.lastJob()).not.toHaveProperty('partial');
  const staying = queue.worker('staying');
  release(queue, leaving);
  expect(staying.lastJob()).toMatchObject({ job_id: id, partial: PARTIAL });
  expect(moves(queue, id)).toEqual(['from leaving at token 3: draining']);
  end(queue, staying, { type: 'job_result', result: {} });
  expect([queue.state(id), kept(queue, id)]).toEqual(['succeeded', null]);
});

it('outlives the queue, and attempts that add nothing to it', () => {
  const queue = new QueueHarness();
  const leaving = queue.worker('leaving');
  const id = queue.job();
  release(queue, leaving);
  queue.restart();
  const dies = queue.worker('dies');
  queue.drop(dies);
  queue.advance(20);
  const fails = queue.worker('fails');
  expect(fails.lastJob()).toMatchObject({ partial: PARTIAL });
  end(queue, fails, { ...LOST, partial: LONGER });
  queue.advance(3);
  expect(fails.lastJob()).toMatchObject({ job_id: id, partial: LONGER });
  expect(moves(queue, id).at(-1)).toBe('from fails at token 4: gone');
});

it('stays with the queue where a worker speaks only the base protocol', () => {
  const queue = new QueueHarness();
  const leaving = queue.worker('leaving');
  const id = queue.job();
  release(queue, leaving);
  queue.drop(leaving);
  const base = queue.baseWorker('base');
  expect(base.lastJob()).toMatchObject({ job_id: id, payload: { messages: [] } });
  expect(base.lastJob()).not.toHaveProperty('partial');
  expect(moves(queue, id)).toEqual([]);
});

it('counts only from the worker that holds the job, and where it is not too long', () => {
  const queue = new QueueHarness();
  const holder = queue.worker('holder');
  const thief = queue.worker('thief', { capacity: 0 });
  const id = queue.job();
  const { fence_token } = holder.lastJob();
  queue.say(thief, { type: 'job_release', job_id: id, fence_token, reason: 'draining', partial: LONGER });
  expect(kept(queue, id)).toBeNull();
  release(queue, holder, { ...PARTIAL, text: 'x'.repeat(2 * bounds.PARTIAL_ANSWER_CHARACTERS) });
  expect([queue.state(id), kept(queue, id)]).toEqual(['pending', null]);
});

it('is not wasted, whatever becomes of the attempts that go on from it', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('worker');
  queue.job();
  end(queue, worker, { ...LOST, partial: PARTIAL, usage: { prompt_tokens: 2, completion_tokens: 5 } });
  queue.advance(3);
  end(queue, worker, { ...LOST, usage: { prompt_tokens: 2, completion_tokens: 6 } });
  queue.advance(3);
  const whole = { prompt_tokens: 2, completion_tokens: 9 };
  end(queue, worker, { type: 'job_result', result: {}, usage: whole });
  expect(usage(queue)).toMatchObject([{ requests: 1, succeeded: 1, input: 2, output: 9, wasted: 2 + 3 }]);
});

const ORDERS = [[['late', 'next']], [['next', 'late']], [['restart', 'late', 'next']]] as const;

it.each(ORDERS)('is not wasted by a worker that tells of it late: %j', (order) => {
  const queue = new QueueHarness();
  const frozen = queue.worker('frozen');
  queue.job();
  const { job_id, fence_token } = frozen.lastJob();
  renew(queue, frozen, FIRST);
  queue.drop(frozen);
  queue.advance(20);
  const next = () => {
    const other = queue.worker('other');
    const whole = { prompt_tokens: 2, completion_tokens: 9 };
    end(queue, other, { type: 'job_result', result: {}, usage: whole });
  };
  const late = () => {
    const back = queue.worker('frozen', { capacity: 0 });
    queue.say(back, { ...LOST, job_id, fence_token, usage: { prompt_tokens: 2, completion_tokens: 5 } });
  };
  const steps = { late, next, restart: () => queue.restart() };
  for (const step of order) steps[step]();
  expect(usage(queue)).toMatchObject([{ requests: 1, succeeded: 1, input: 2, output: 9, wasted: 2 }]);
});

/** @returns the attempts of whose answers the queue asks for all parts again */
function renew(queue: QueueHarness, worker: FakeConnection, part: object): unknown {
  const { job_id, fence_token } = worker.lastJob();
  queue.say(worker, { type: 'renew', jobs: [{ job_id, fence_token, part }] });
  return worker.frames('renewed').at(-1)!.again;
}

const FIRST = { ...PARTIAL, after: 0 };
const NEXT = { ...PARTIAL, after: PARTIAL.ids.length, ids: [14], text: ' upon' };

it('is what a worker told with its renewals, where that is lost', () => {
  const queue = new QueueHarness();
  const lost = queue.worker('lost');
  const id = queue.job();
  expect([renew(queue, lost, FIRST), renew(queue, lost, NEXT)]).toEqual([undefined, undefined]);
  expect(kept(queue, id)).toBeNull();
  queue.drop(lost);
  queue.advance(20);
  const staying = queue.worker('staying');
  expect(staying.lastJob()).toMatchObject({ job_id: id, partial: LONGER });
  expect(moves(queue, id)).toEqual([expect.stringMatching(/^from lost at token 4: /)]);
});

it('is asked for again as a whole by a queue that has forgotten it, and may begin again', () => {
  const queue = new QueueHarness();
  const lost = queue.worker('lost');
  const id = queue.job();
  renew(queue, lost, FIRST);
  queue.hibernate();
  const { fence_token } = lost.lastJob();
  expect(renew(queue, lost, NEXT)).toEqual([{ job_id: id, fence_token }]);
  renew(queue, lost, { ...LONGER, after: 0 });
  renew(queue, lost, FIRST);
  queue.drop(lost);
  queue.advance(20);
  expect(queue.worker('staying').lastJob()).toMatchObject({ partial: PARTIAL });
});

it('is what the worker says with its last word, rather than before', () => {
  const queue = new QueueHarness();
  const leaving = queue.worker('leaving');
  queue.job();
  renew(queue, leaving, FIRST);
  release(queue, leaving, LONGER);
  expect(queue.worker('staying').lastJob()).toMatchObject({ partial: LONGER });
});

it('is not that of an older attempt, nor of another worker', () => {
  const queue = new QueueHarness();
  const holder = queue.worker('holder');
  const thief = queue.worker('thief', { capacity: 0 });
  const id = queue.job();
  const { fence_token } = holder.lastJob();
  queue.say(thief, { type: 'renew', jobs: [{ job_id: id, fence_token, part: FIRST }] });
  queue.say(holder, { type: 'renew', jobs: [{ job_id: id, fence_token: fence_token - 1, part: FIRST }] });
  queue.drop(holder);
  queue.advance(20);
  expect(queue.worker('staying').lastJob()).not.toHaveProperty('partial');
});
