import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ensureClients } from '../../scripts/clients/setup.ts';
import { FakeServerless, type FakeServerlessOptions } from '../support/fake-serverless.ts';
import { until } from '../support/poll.ts';
import { type Child, startProcess } from '../support/processes.ts';
import { cleanEnvironment, tearDown } from '../support/road.ts';

/** The fake platform held against RunPod's own SDK: what our worker is tested with must be what theirs runs on. */
let python: string;
const platforms: FakeServerless[] = [];
const workers: Child[] = [];
beforeAll(async () => {
  ({ python } = await ensureClients());
});
afterEach(async () => {
  // In order the SDK ends only after its long poll for jobs to stop.
  for (const worker of workers) worker.kill('SIGKILL');
  await Promise.all(workers.splice(0).map((worker) => worker.stop()));
  for (const platform of platforms.splice(0)) platform.close();
});
afterAll(tearDown);

async function started(concurrency: number, options: FakeServerlessOptions = { holdMs: 1000 }) {
  const platform = new FakeServerless(options);
  platforms.push(platform);
  const env = cleanEnvironment({
    ...(await platform.listen()),
    CONCURRENCY: String(concurrency),
    RUNPOD_SKIP_AUTO_SYSTEM_CHECKS: 'true',
    RUNPOD_SKIP_GPU_CHECK: 'true',
    NO_PROXY: '*',
    no_proxy: '*',
  });
  const script = join(import.meta.dirname, 'runpod_handler.py');
  const worker = startProcess(python, ['-u', script], { env, name: 'SDK' });
  workers.push(worker);
  // Its pings come from a process of their own.
  await until(
    () => platform.of('take').length > 0 && platform.of('ping').length > 0,
    'the SDK asks for jobs and pings',
  );
  return { platform, worker };
}

describe.each([1, 4])('RunPod’s SDK at concurrency %i', (concurrency) => {
  it('runs jobs, streams and errors, and does nothing that the fake forbids', async () => {
    const { platform, worker } = await started(concurrency);
    platform.submit('whole', { pieces: [{ text: 'grüße 🎉' }] });
    platform.submit('stream', { pieces: ['a', 'b', 'c'] });
    platform.submit('error', { pieces: ['a'], error: 'broken' });
    platform.submit('raises', { fail: 'no' });
    platform.submit('progress', { pieces: ['p'], progress: 'half' });
    await until(
      () => platform.isOver('whole', 'stream', 'error', 'raises', 'progress'),
      `all jobs are over, SDK: ${worker.output().slice(-500)}`,
    );
    const { whole, stream, error, raises, progress } = Object.fromEntries(platform.jobs);
    expect(whole).toMatchObject({ output: [{ text: 'grüße 🎉' }], stream: [{ text: 'grüße 🎉' }] });
    expect(stream).toMatchObject({ status: 'COMPLETED', output: ['a', 'b', 'c'], stream: ['a', 'b', 'c'] });
    expect(error).toMatchObject({ status: 'FAILED', error: 'broken', stream: ['a'] });
    expect(raises!.error).toContain('no');
    expect(progress).toMatchObject({ status: 'COMPLETED', progress: ['half'], output: ['p'] });
    const bodies = platform.of('done').filter(({ body }) => body!.status === undefined);
    expect(bodies.map(({ query }) => query.get('isStream'))).toEqual(bodies.map(() => 'true'));
    expect(platform.of('take')[0]!.path).toContain(concurrency === 1 ? '/job-take/' : '/job-take-batch/');
    expect(platform.violations).toEqual([]);
  });
});

it('the SDK stops a job that the fake names, and posts nothing more of it', async () => {
  const { platform } = await started(2);
  platform.submit('long', { pieces: Array.from({ length: 1000 }, () => 'x'), pause: 0.1 });
  await until(() => platform.jobs.get('long')!.stream.length > 2, 'it streams');
  platform.stop('long', 'unknown');
  await until(
    () => !platform.of('ping').at(-1)!.query.get('job_id')?.includes('long'),
    'pings name it no more',
  );
  platform.submit('next', { pieces: ['n'] });
  await until(() => platform.isOver('next'), 'the next job is over');
  expect(platform.of('done', 'long')).toEqual([]);
  expect(platform.violations).toEqual([]);
});

it('pings name the jobs that the SDK holds', async () => {
  const { platform } = await started(1);
  platform.submit('job-1', { pieces: ['a'], pause: 60 });
  await until(
    () => platform.of('ping').some(({ query }) => query.get('job_id') === 'job-1'),
    'a ping names it',
  );
  expect(platform.of('ping')[0]!.query.get('job_id')).toBeNull();
});

it('the SDK asks again after 204, 400, 429, 500 and a closed connection', async () => {
  const faults = [204, 400, 429, 500, 'close'] as const;
  const { platform } = await started(1);
  let taken = 0;
  platform.fault = ({ route }) => (route === 'take' ? faults[taken++] : undefined);
  await until(() => taken > faults.length, 'it goes on asking');
  platform.submit('job', { pieces: ['a'] });
  await until(() => platform.isOver('job'), 'the job is over');
});

it('loses a result that the fake answers 429, and posts one again that it answers 500', async () => {
  const { platform } = await started(1);
  let posts = 0;
  platform.fault = ({ route, jobId }) => {
    if (route !== 'done') return undefined;
    return jobId === 'refused' ? 429 : posts++ < 2 ? 500 : undefined;
  };
  platform.submit('refused', { pieces: ['a'] });
  platform.submit('again', { pieces: ['b'] });
  await until(() => platform.isOver('again'), 'the second is over');
  expect(platform.of('done', 'refused')).toHaveLength(1);
  expect(platform.jobs.get('refused')!.status).toBe('IN_PROGRESS');
});
