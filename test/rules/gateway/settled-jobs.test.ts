import { beforeEach, describe, expect, it } from 'vitest';
import { endOfJob } from '../../../src/features/responses/object/job-end.ts';
import type { Env } from '../../../src/gateway/env.ts';
import { settledJobs } from '../../../src/gateway/objects/settled-jobs.ts';
import { playedObjects } from '../../support/objects.ts';

const RESULT = { response: { status: 200, body: { object: 'response', status: 'completed', output: [] } } };

/** A listener whose queue says that three jobs have settled, of which the second has its result in a file. */
let file: () => Response;
let listened: string[][];
const view = (id: string) => ({ id, state: 'succeeded', attempt_errors: [], error: null });
const queue = {
  nextSettled: async () => ({
    listener: 'known',
    jobs: ['a', 'b', 'c'].map((id) => ({
      id,
      view: JSON.stringify(
        id === 'b' ? { ...view(id), result: null, has_long_result: true } : { ...view(id), result: RESULT },
      ),
    })),
  }),
  listen: async (_: string, ids: string[]) => void listened.push(ids),
  get: async (id: string) => ({ ...view(id), result: null, result_file: 'r-b' }),
};
const env: Env = {
  objects: playedObjects({ queue: () => queue, files: () => ({ content: async () => file() }) }),
};

beforeEach(() => {
  listened = [];
});

describe('a list of settled jobs with a result in a file', () => {
  it('has what is in the file', async () => {
    file = () => Response.json(RESULT);
    const jobs = await settledJobs(env, 'q', 'responses').nextSettled(0);
    expect(jobs!.map(endOfJob)).toMatchObject(Array(3).fill({ kind: 'response' }));
    expect(listened).toEqual([]);
  });

  it.each([
    ['gone', () => new Response(null, { status: 404 })],
    ['broken', () => new Response('{"response": {"sta')],
  ])('has that job alone as failed where its file is %s', async (what, content) => {
    file = content;
    const jobs = await settledJobs(env, 'q', 'responses').nextSettled(0);
    expect(jobs!.map(({ id }) => id)).toEqual(['a', 'b', 'c']);
    expect(jobs!.map(endOfJob)).toMatchObject([
      { kind: 'response' },
      {
        kind: 'failed',
        error: {
          code: 'server_error',
          message: `The result of the job is lost: its file is ${what}. Ask again.`,
        },
      },
      { kind: 'response' },
    ]);
  });

  it('has the others where the file cannot be read now, and asks for that job again', async () => {
    file = () => new Response(null, { status: 500 });
    const jobs = await settledJobs(env, 'q', 'responses').nextSettled(0);
    expect(jobs!.map(({ id }) => id)).toEqual(['a', 'c']);
    expect(listened).toEqual([['b']]);
  });
});
