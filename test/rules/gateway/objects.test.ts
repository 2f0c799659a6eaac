import { describe, expect, it } from 'vitest';
import type { Env } from '../../../src/gateway/env.ts';
import { callWorker } from '../../../src/gateway/objects/work.ts';
import type { RequestAnswer, WaitingRequest } from '../../../src/queue/rpc.ts';
import { playedObjects } from '../../support/objects.ts';

const CALL: WaitingRequest = {
  job_id: 'job-1',
  job_type: 'engine_request',
  payload: '{}',
  model: 'tiny',
  priority: 0,
  wait_for_worker_ms: 0,
  wait_for_slot_ms: 5000,
};
const ANSWER: RequestAnswer = { kind: 'stream', stream_id: 7, fence_token: 1, worker_id: 'w' };

/** What a queue is asked that restarts after 40 s of the first question. */
async function askedOfRestartingQueue(wanted: WaitingRequest): Promise<WaitingRequest[]> {
  const asked: WaitingRequest[] = [];
  let now = 0;
  const queue = {
    request: async (job: WaitingRequest) => {
      asked.push(job);
      if (asked.length > 1) return ANSWER;
      now += 40_000;
      throw Object.assign(new Error('the object was reset'), { retryable: true });
    },
  };
  const env: Env = { objects: playedObjects({ queue: () => queue }) };
  expect(await callWorker(env, 'q', wanted, () => now)).toEqual(ANSWER);
  return asked;
}

describe('a call whose queue restarts', () => {
  it('is asked once more with what is left of its deadline', async () => {
    const asked = await askedOfRestartingQueue({ ...CALL, deadline_ms: 60_000 });
    expect(asked.map(({ deadline_ms }) => deadline_ms)).toEqual([60_000, 20_000]);
  });

  it('has no time left, rather than less than none, when its deadline has passed meanwhile', async () => {
    const asked = await askedOfRestartingQueue({ ...CALL, deadline_ms: 30_000 });
    expect(asked.map(({ deadline_ms }) => deadline_ms)).toEqual([30_000, 0]);
  });

  it('gets no deadline that it did not set', async () => {
    const asked = await askedOfRestartingQueue(CALL);
    expect(asked).toHaveLength(2);
    expect(asked.some((call) => 'deadline_ms' in call)).toBe(false);
  });
});

describe('a call that fails', () => {
  /** @returns how often the queue was asked */
  async function timesAsked(error: unknown, told: object = {}): Promise<number> {
    let times = 0;
    const request = () => {
      times += 1;
      return Promise.reject(error);
    };
    const env: Env = { objects: playedObjects({ queue: () => ({ request }) }) };
    await expect(callWorker(env, 'q', CALL, () => 0)).rejects.toMatchObject(told);
    return times;
  }
  const failure = (message: string, marks: object = {}) => Object.assign(new Error(message), marks);

  it.each([
    ['marked as worth another call', failure('gone', { retryable: true })],
    ['marked as an object that was reset', failure('new code', { durableObjectReset: true })],
    ['without a mark that tells of a connection', failure('Network connection lost.')],
    ['without a mark that tells of a reset', failure('Durable Object was reset.')],
  ])('is repeated once where it is %s', async (_, error) => {
    expect(await timesAsked(error)).toBe(2);
  });

  it('is not repeated where the object has too much to do, and its caller is told so', async () => {
    const error = failure('Durable Object is overloaded.', { overloaded: true, retryable: true });
    expect(await timesAsked(error, { status: 503, code: 'queue_overloaded' })).toBe(1);
  });

  it.each([
    ['marked otherwise, whatever it says', failure('Durable Object was reset.', { retryable: false })],
    ['from the code of the object', failure('planted')],
  ])('is not repeated where it is %s', async (_, error) => {
    expect(await timesAsked(error)).toBe(1);
  });
});
