import { describe, expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { startTestQueue, type TestQueue } from '../support/test-queue.ts';

/** Types of jobs that only their workers know, through a real queue. */

const road = startTestQueue();

async function submit(queue: TestQueue, job: object): Promise<JobView> {
  const body = JSON.stringify({ config_id: 'images', ...job });
  const response = await queue.ask('', { method: 'POST', body });
  expect(response.status).toBe(201);
  return (await response.json()) as JobView;
}

const settled = async (queue: TestQueue, id: string) =>
  (await (await queue.ask(`/${id}?wait=30`)).json()) as JobView;

it('reach a worker of the base SDK as the task of their payload, and its result is theirs', async () => {
  const queue = road.queue();
  const worker = await queue.worker('sdk', { base: true, config_id: 'images' });
  const { id } = await submit(queue, { job_type: 'fal/text-to-image', payload: { prompt: 'a cat' } });
  const job = await worker.job();
  expect(job).toMatchObject({ mode: 'persisted', config_id: 'images' });
  expect(job.payload).toEqual({ task: 'fal/text-to-image', prompt: 'a cat' });
  expect(job).not.toHaveProperty('job_type');
  const result = { status: 'success', task: 'fal/text-to-image', images: ['aGk='] };
  worker.result(job, result);
  expect(await settled(queue, id)).toMatchObject({
    state: 'succeeded',
    job_type: 'fal/text-to-image',
    result,
  });
});

it('leave a task that the payload names as it is', async () => {
  const queue = road.queue();
  const worker = await queue.worker('sdk', { base: true, config_id: 'images' });
  await submit(queue, { job_type: 'image_generation', payload: { task: 'fal/image-edit', prompt: 'x' } });
  expect((await worker.job()).payload).toEqual({ task: 'fal/image-edit', prompt: 'x' });
});

it('reach an extended worker with their type', async () => {
  const queue = road.queue();
  const worker = await queue.worker('mine', { config_id: 'images' });
  await submit(queue, { job_type: 'image_generation', payload: { prompt: 'a cat' } });
  expect(await worker.job()).toMatchObject({ job_type: 'image_generation', payload: { prompt: 'a cat' } });
});

it('wait for a worker of their pool, whoever else is there', async () => {
  const queue = road.queue();
  const other = await queue.worker('other');
  const { id, state } = await submit(queue, { job_type: 'image_generation', payload: {} });
  expect(state).toBe('pending');
  const worker = await queue.worker('sdk', { base: true, config_id: 'images' });
  worker.result(await worker.job());
  expect(await settled(queue, id)).toMatchObject({ state: 'succeeded' });
  expect(other.frames.filter(({ type }) => type === 'job')).toEqual([]);
});

describe('a misspelt type', () => {
  it.each([
    ['chat_completoin', 'chat_completion'],
    ['Chat_Completion', 'chat_completion'],
    ['engine-request', 'engine_request'],
    ['openai/embedings', 'openai/embeddings'],
  ])('%s is refused, and %s is named', async (job_type, meant) => {
    const body = JSON.stringify({ job_type, payload: {} });
    const response = await road.queue().ask('', { method: 'POST', body });
    const { error } = (await response.json()) as { error: { message: string } };
    expect([response.status, error.message]).toEqual([
      400,
      expect.stringContaining(`job_type: there is no type "${job_type}"; did you mean ${meant}?`),
    ]);
  });
});

it.each([
  [{ job_type: 'chat_completion' }, 'payload: is missing'],
  [{ job_type: 7, payload: {} }, 'job_type: expected a text, not 7'],
  [{ job_type: 'chat_completion', payload: {}, priority: 0.5 }, 'priority: expected a whole number, not 0.5'],
  [{ job_type: 'chat_completion', payload: {}, max_attempts: 0 }, 'max_attempts: expected at least 1, not 0'],
  [{ job_type: 'engine_request', payload: { path: 'v1' } }, 'payload.path: must begin with "/", not "v1"'],
])('the answer to %j says what is wrong in words', async (job, words) => {
  const response = await road.queue().ask('', { method: 'POST', body: JSON.stringify(job) });
  const { error } = (await response.json()) as { error: { message: string } };
  expect([response.status, error.message]).toEqual([400, words]);
});
