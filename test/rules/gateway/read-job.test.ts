import { expect, it } from 'vitest';
import { permissionsOf } from '../../../src/gateway/auth/permissions.ts';
import type { Env } from '../../../src/gateway/env.ts';
import { type ReadJob, readSubmission } from '../../../src/gateway/jobs/submissions.ts';
import { submitJobs } from '../../../src/gateway/jobs/submit-jobs.ts';
import type { SubmitJob } from '../../../src/queue/rpc.ts';
import { playedObjects } from '../../support/objects.ts';

/** What the queue is asked to store. */
async function stored(given: ReadJob): Promise<SubmitJob> {
  const asked: SubmitJob[] = [];
  const submit = async (jobs: SubmitJob[]) => {
    asked.push(...jobs);
    return jobs.map(({ id }) => ({ ok: true, job: { id }, created: true, has_file: true }));
  };
  await submitJobs({ objects: playedObjects({ queue: () => ({ submit }) }) } as Env, 'q', [given]);
  return asked[0]!;
}

it.each(['short', 'long '.repeat(4000)])(
  'stores what its payload says, and nothing of how it was read: %.6s',
  async (content) => {
    const payload = { model: 'fast', messages: [{ role: 'user', content: content.padEnd(600, '.') }] };
    const body = { id: 'j', job_type: 'chat_completion', payload };
    const read = readSubmission(body, permissionsOf(null, {}));
    if (read instanceof Error) throw read;
    const { facts, ...rest } = read;
    expect(facts === undefined).toBe(content.length > 16 * 1024);
    const job = await stored(read);
    expect(job).not.toHaveProperty('facts');
    expect(job).toMatchObject({
      id: 'j',
      model: 'fast',
      payload: JSON.stringify(payload),
    });
    expect(job.prefix?.hashes.length).toBeGreaterThan(0);
    expect(job).toEqual(await stored(rest));
  },
);
