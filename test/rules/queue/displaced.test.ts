import { expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

it('jobs that a worker gives back since its machine is taken away count as its own, not those of others', () => {
  const queue = new QueueHarness();
  const going = queue.worker('going', { capacity: 2 });
  queue.job();
  queue.job();
  const [first, second] = going.frames('job') as { job_id: string; fence_token: number }[];
  queue.worker('other', { capacity: 4 });
  queue.say(going, { type: 'drain', reason: 'preempted' });
  for (const { job_id, fence_token } of [first!, second!])
    queue.say(going, { type: 'job_release', job_id, fence_token, reason: 'draining' });
  queue.advance(5);
  expect(queue.queue.takeDisplaced()).toEqual({ going: { moved: 0, repeated: 2 } });
  expect(queue.queue.takeDisplaced()).toEqual({});
});

it('a job that goes on from its partial answer counts as moved', () => {
  const queue = new QueueHarness();
  const going = queue.worker('going');
  queue.job();
  queue.worker('other');
  const partial = {
    prompt_tokens: 2,
    ids: [1, 2, 11],
    role: 'assistant',
    text: 'a',
    reasoning: '',
    logprobs: null,
  };
  const { job_id, fence_token } = going.lastJob();
  queue.say(going, { type: 'drain', reason: 'preempted' });
  queue.say(going, { type: 'job_release', job_id, fence_token, reason: 'draining', partial });
  expect(queue.queue.takeDisplaced()).toEqual({ going: { moved: 1, repeated: 0 } });
});

it('a job of a worker that is gone counts once another one has it', () => {
  const queue = new QueueHarness();
  const lost = queue.worker('lost', { capacity: 1 });
  queue.job();
  queue.drop(lost);
  queue.advance(60);
  expect(queue.queue.takeDisplaced()).toEqual({});
  queue.worker('other', { capacity: 1 });
  expect(queue.queue.takeDisplaced()).toEqual({ lost: { moved: 0, repeated: 1 } });
});

it('a job that a worker releases for another reason counts against nobody', () => {
  const queue = new QueueHarness();
  const full = queue.worker('full', { capacity: 1 });
  queue.job();
  const { job_id, fence_token } = full.lastJob();
  queue.worker('other', { capacity: 1 });
  queue.say(full, { type: 'job_release', job_id, fence_token, reason: 'backpressure' });
  queue.advance(30);
  expect(queue.queue.takeDisplaced()).toEqual({});
});

it('a job that the queue takes back from a machine that was taken away counts, also where its name is taken again', () => {
  const queue = new QueueHarness();
  const going = queue.worker('going', { capacity: 1, instance: { boot_id: 'first' } });
  queue.job();
  queue.say(going, { type: 'drain', reason: 'preempted' });
  queue.drop(going);
  queue.worker('other', { capacity: 1 });
  expect(queue.queue.takeDisplaced()).toEqual({ going: { moved: 0, repeated: 1 } });

  const again = queue.worker('again', { capacity: 1, instance: { boot_id: 'first' } });
  queue.job();
  expect(again.frames('job')).toHaveLength(1);
  queue.say(again, { type: 'drain', reason: 'preempted' });
  queue.worker('again', { capacity: 1, instance: { boot_id: 'second' }, jobs: [] });
  queue.advance(5);
  expect(queue.queue.takeDisplaced()).toEqual({ again: { moved: 0, repeated: 1 } });
});

it('a job whose frame was lost on the way counts against nobody', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('back', { capacity: 1, instance: { boot_id: 'first' } });
  queue.job();
  queue.drop(worker);
  queue.worker('back', { capacity: 1, instance: { boot_id: 'first' }, jobs: [] });
  expect(queue.queue.takeDisplaced()).toEqual({});
});
