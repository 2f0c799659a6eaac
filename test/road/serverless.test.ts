import { afterAll, describe, expect, it } from 'vitest';
import type { PlatformJob } from '../support/fake-serverless.ts';
import { until } from '../support/poll.ts';
import { engineRunning, HELD, setPace, tearDown } from '../support/road.ts';
import { endAll, startEndpoint } from '../support/serverless-road.ts';

/** Our worker in a RunPod endpoint, in the place of RunPod's; each test has one of its own, so they run beside each other. */
afterAll(async () => {
  await endAll();
  await tearDown();
});

const prompt = (tokens: number, more: object = {}) => ({
  prompt: 'Say something.',
  sampling_params: { max_tokens: tokens, ignore_eos: true },
  ...more,
});

function textOf({ output }: PlatformJob): string {
  return (output as string[]).join('');
}

describe.concurrent('what jobs answer', () => {
  it('gives a whole answer as one piece and as a list of one, as RunPod’s worker does', async () => {
    const { platform } = await startEndpoint();
    const job = platform.submit('sync-1-u1', prompt(3));
    await until(() => platform.isOver(job.id), 'it is over');
    expect(job).toMatchObject({ status: 'COMPLETED', output: [{ object: 'text_completion' }] });
    expect(job.stream).toEqual(job.output);
    expect(platform.of('done')[0]!.query.get('isStream')).toBe('true');
    expect(platform.of('stream')[0]!.query.get('isStream')).toBe('false');
    expect(platform.violations).toEqual([]);
  });

  it('streams the engine’s events in order, and repeats them as the output', async () => {
    const { platform, engineUrl } = await startEndpoint({ engineArgs: HELD });
    const job = platform.submit('s', {
      openai_route: '/v1/chat/completions',
      openai_input: {
        ...{
          messages: [{ role: 'user', content: 'grüße 🎉' }],
          stream: true,
          max_tokens: 40,
          ignore_eos: true,
        },
      },
    });
    await until(() => job.stream.length > 0, 'its beginning is streamed');
    await setPace(engineUrl, 5);
    await until(() => platform.isOver('s'), 'it is over');
    expect(job.stream).toEqual(job.output);
    expect(job.stream.length).toBeGreaterThan(1);
    expect(textOf(job)).toMatch(/^data: \{[\s\S]*data: \[DONE\]\n\n$/);
    expect(
      textOf(job)
        .split('\n\n')
        .filter((event) => event.includes('"content"')).length,
    ).toBeGreaterThan(39);
  });

  it('posts fewer and larger pieces to a slow platform, and loses none', async () => {
    const { platform } = await startEndpoint({ engineArgs: '--inter-token-latency-ms 4' });
    platform.delayMs = ({ route }) => (route === 'stream' ? 200 : 0);
    const job = platform.submit('slow', prompt(200, { stream: true }));
    await until(() => platform.isOver('slow'), 'it is over');
    expect(job.stream).toEqual(job.output);
    expect(textOf(job).split('\n\n').length).toBeGreaterThan(200);
    expect(job.stream.length).toBeLessThan(50);
  });

  it('gives the forms of 2.x where they are asked for', async () => {
    const { platform } = await startEndpoint({ env: { RUNPOD_OUTPUT: 'tokens' } });
    const job = platform.submit('old', prompt(12, { stream: true }));
    await until(() => platform.isOver('old'), 'it is over');
    const output = job.output as { choices: { tokens: string[] }[]; usage: object }[];
    expect(output.flatMap(({ choices }) => choices[0]!.tokens)).toHaveLength(12);
    expect(output.at(-1)!.usage).toEqual({ input: expect.any(Number), output: 12 });
  });

  it('says errors as text, each of its own job', async () => {
    const { platform } = await startEndpoint();
    const bad = platform.submit('bad', { nonsense: 1 });
    const none = platform.submit('none', null);
    const missing = platform.give({ id: 'missing' });
    const refused = platform.submit('refused', prompt(-1));
    const good = platform.submit('good', prompt(2), { batchId: 'b1', policy: { ttl: 1 }, unknown: [1] });
    await until(() => platform.isOver('bad', 'none', 'missing', 'refused', 'good'), 'all are over');
    expect(bad.error).toMatch(/^input: expected openai_route/);
    expect(none.error).toMatch(/input/);
    expect(missing.error).toMatch(/no input/);
    expect(refused.error).toMatch(/^Error code: 400 - /);
    expect(good.status).toBe('COMPLETED');
    expect(platform.violations).toEqual([]);
  });

  it('works with addresses that have no query', async () => {
    const { platform } = await startEndpoint({ bare: true });
    platform.submit('j', prompt(1));
    await until(() => platform.isOver('j'), 'it is over');
    expect(platform.violations).toEqual([]);
  });
});

describe.concurrent('taking', () => {
  it('asks for as many as there are free slots', async () => {
    const { platform, engineUrl } = await startEndpoint({
      engineArgs: HELD,
      env: { MAX_CONCURRENCY: '3' },
    });
    const [first] = platform.of('take');
    expect([first!.query.get('batch_size'), first!.query.get('job_in_progress')]).toEqual(['3', '0']);
    for (const id of ['a', 'b', 'c', 'd', 'e']) platform.submit(id, prompt(1000));
    await until(async () => (await engineRunning(engineUrl)) === 3, 'three run');
    platform.submit('f', prompt(5));
    await until(
      () => platform.of('ping').at(-1)!.query.get('job_id')?.split(',').length === 3,
      'pings name three',
    );
    const sizes = platform.of('take').map(({ query }) => Number(query.get('batch_size') ?? 1));
    expect(Math.max(...sizes)).toBe(3);
    expect([...platform.jobs.values()].filter(({ status }) => status === 'IN_PROGRESS')).toHaveLength(3);
  });

  it('runs one job after another where it has one slot', async () => {
    const { platform } = await startEndpoint({
      engineArgs: '--inter-token-latency-ms 20',
      env: { MAX_CONCURRENCY: '1' },
    });
    const ids = Array.from({ length: 24 }, (_, index) => `j${index}`);
    for (const id of ids) platform.submit(id, prompt(1));
    await until(() => platform.isOver(...ids), 'all are over');
    expect(platform.of('take').every(({ path }) => path.includes('/job-take/'))).toBe(true);
  });

  it('asks again after 204, 400, 401, 500 and a closed connection', async () => {
    const faults = [400, 500, 'close', 401, 204] as const;
    const { platform, process } = await startEndpoint({ holdMs: 0 });
    let taken = 0;
    platform.fault = ({ route }) => (route === 'take' ? faults[taken++] : undefined);
    await until(() => taken > faults.length + 3, 'it goes on asking');
    platform.fault = () => undefined;
    platform.submit('j', prompt(1));
    await until(() => platform.isOver('j'), 'it is over');
    await process.waitForLine(/RunPod gives no jobs; asking again/);
  });

  it('says each line of its log as RunPod’s console files it under a job', async () => {
    const { platform, process } = await startEndpoint();
    platform.submit('job-7', prompt(1));
    await until(() => platform.isOver('job-7'), 'it is over');
    const line = await process.waitForLine(/"requestId":"job-7"/);
    expect(JSON.parse(line)).toEqual({ requestId: 'job-7', message: 'worker: job taken', level: 'INFO' });
    expect(process.output()).not.toContain('rpa_secret');
  });
});
