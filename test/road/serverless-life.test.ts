import { kill } from 'node:process';
import { afterAll, describe, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import type { FakeServerless } from '../support/fake-serverless.ts';
import { until } from '../support/poll.ts';
import { killTree } from '../support/processes.ts';
import { engineRunning, HELD, processesWith, setPace, stateFolder, tearDown } from '../support/road.ts';
import { endAll, startEndpoint, startPlatform, startServerlessWorker } from '../support/serverless-road.ts';

/**
 * What our worker in a RunPod endpoint does when something goes wrong, and how it starts and ends. Each test has a platform
 * and a worker of its own, and most of its time is waiting, so they run beside each other.
 */
afterAll(async () => {
  await endAll();
  await tearDown();
});

const prompt = (tokens: number, more: object = {}) => ({
  prompt: 'Say something.',
  sampling_params: { max_tokens: tokens, ignore_eos: true },
  ...more,
});

function heldIn(platform: FakeServerless): string[] {
  return platform.of('ping').at(-1)?.query.get('job_id')?.split(',') ?? [];
}

const SLOW = { engineArgs: '--inter-token-latency-ms 20' };

describe.concurrent('results', () => {
  it.each([
    ['429', 429],
    ['500', 500],
    ['a closed connection', 'close'],
    ['an answer that is lost', 'lose answer'],
  ] as const)('are posted again after %s, and named in pings until they are taken', async (_name, fault) => {
    const { platform } = await startEndpoint();
    let left = 2;
    platform.fault = ({ route }) => (route === 'done' && left-- > 0 ? fault : undefined);
    const job = platform.submit('j', prompt(2));
    await until(() => heldIn(platform).includes('j'), 'a ping names it');
    await until(() => platform.isOver('j'), 'it is over');
    await until(() => !heldIn(platform).includes('j'), 'pings name it no more');
    expect(job).toMatchObject({ status: 'COMPLETED', output: [{ object: 'text_completion' }] });
  });

  it('keep every piece of a stream whose posts fail', async () => {
    const { platform } = await startEndpoint(SLOW);
    platform.fault = ({ route }) => (route === 'stream' ? 500 : undefined);
    const job = platform.submit('j', prompt(30, { stream: true }));
    await until(() => platform.isOver('j'), 'it is over');
    expect((job.output as string[]).join('')).toMatch(/data: \[DONE\]\n\n$/);
  });

  it('that are refused are given up, with a word in the log', async () => {
    const { platform, process } = await startEndpoint();
    platform.fault = ({ route }) => (route === 'done' ? 400 : undefined);
    platform.submit('j', prompt(2));
    await process.waitForLine(/RunPod refused the result of a job/);
    await until(
      () => platform.of('ping').length > 0 && !heldIn(platform).includes('j'),
      'it is held no more',
    );
    expect(platform.of('done', 'j')).toHaveLength(1);
  });

  it('of a killed worker are posted by the next one, before its engine is healthy', async () => {
    const home = stateFolder();
    const { platform, endpoint, process } = await startEndpoint({ env: { XDG_STATE_HOME: home } });
    platform.fault = ({ route }) => (route === 'done' ? 503 : undefined);
    platform.submit('j', prompt(2));
    // The first two are 1 s apart at least, as long as a result is kept in memory alone.
    await until(() => platform.of('done', 'j').length > 2, 'its result is refused, again and again');
    process.kill('SIGKILL');
    await process.exited;
    platform.fault = () => undefined;
    await startServerlessWorker(endpoint, {
      engineArgs: '--startup-seconds 20',
      env: { XDG_STATE_HOME: home },
    });
    await until(() => platform.isOver('j'), 'it is over');
    expect(platform.jobs.get('j')).toMatchObject({ status: 'COMPLETED', gives: 1 });
  });
});

describe.concurrent('stops', () => {
  it('end the engine’s request and leave the job’s siblings alone', async () => {
    const { platform, engineUrl } = await startEndpoint({ engineArgs: HELD });
    platform.submit('stopped', prompt(5000, { stream: true }));
    platform.submit('sibling', prompt(100));
    await until(async () => (await engineRunning(engineUrl)) === 2, 'both run');
    platform.stop('stopped', 'unknown');
    await until(async () => (await engineRunning(engineUrl)) === 1, 'one runs');
    await setPace(engineUrl, 0);
    await until(() => platform.isOver('sibling'), 'the other is over');
    expect(platform.of('done', 'stopped')).toEqual([]);
    await until(() => platform.of('ping').length > 0 && !heldIn(platform).includes('stopped'), 'not pinged');
    platform.submit('next', prompt(1));
    await until(() => platform.isOver('next'), 'the next is over');
  });
});

describe.concurrent('the start', () => {
  it('says nothing before the engine is healthy, then pings, then asks', async () => {
    const { platform, endpoint } = await startPlatform();
    const { process } = await startServerlessWorker(endpoint, { engineArgs: '--startup-seconds 2' });
    await process.waitForLine(/engine: /);
    expect(platform.requests).toEqual([]);
    await until(() => platform.of('take').length > 0, 'it asks');
    expect(platform.requests[0]!.route).toBe('ping');
  });

  it('that fails is said with its reason, and ends the container with an error', async () => {
    const { platform, endpoint } = await startPlatform();
    const { process } = await startServerlessWorker(endpoint, { env: { VLLM_EXTRA_ARGS: '--no-such-flag' } });
    const { code } = await process.exited;
    expect(code).toBeGreaterThan(0);
    expect(platform.of('take')).toEqual([]);
    expect(Object.fromEntries(platform.of('ping')[0]!.query)).toMatchObject({
      status: 'unhealthy',
      reason: expect.stringContaining('no-such-flag'),
    });
    expect(platform.of('ping')).toHaveLength(1);
  });

  it('in both queues is refused with a word on how to choose', async () => {
    const { endpoint } = await startPlatform();
    const { process } = await startServerlessWorker(endpoint, { env: { CASOLA_WS_URL: 'ws://127.0.0.1:1' } });
    expect((await process.exited).code).toBe(2);
    expect(process.output()).toContain('set QUEUE=own');
  });
});

describe.concurrent('sleep', () => {
  it('of the whole container, as FlashBoot puts it to, costs it nothing but the time', async () => {
    // What was given to a connection that is gone is given again.
    const { platform, process } = await startEndpoint({ lostAfterMs: 3000 });
    kill(-process.pid, 'SIGSTOP');
    platform.dropConnections();
    platform.submit('j', prompt(2));
    const asked = platform.of('take').length;
    kill(-process.pid, 'SIGCONT');
    await until(() => platform.isOver('j'), 'it is over');
    expect(platform.of('take').length).toBeGreaterThan(asked);
  });
});

describe.concurrent('the end', () => {
  it('does not wait for polls that the platform holds', async () => {
    const { platform, process } = await startEndpoint({ holdMs: 600_000 });
    const takes = platform.of('take').length;
    process.kill('SIGTERM');
    expect((await process.exited).code).toBe(0);
    expect(platform.of('take')).toHaveLength(takes);
  });

  it('waits for the jobs that run, with pings, and posts their results', async () => {
    const { platform, process, engineUrl } = await startEndpoint({ engineArgs: HELD });
    platform.submit('j', prompt(200, { stream: true }));
    await until(async () => (await engineRunning(engineUrl)) === 1, 'it runs');
    process.kill('SIGTERM');
    const pings = platform.of('ping').length;
    await until(
      () => platform.of('ping').length > pings + 1 && heldIn(platform).includes('j'),
      'pings go on',
    );
    await setPace(engineUrl, 0);
    expect((await process.exited).code).toBe(0);
    expect(platform.jobs.get('j')!.status).toBe('COMPLETED');
    expect(platform.violations).toEqual([]);
  });

  it('answers a job that comes with the signal', async () => {
    const { platform, process } = await startEndpoint();
    process.kill('SIGTERM');
    platform.submit('late', prompt(2));
    expect((await process.exited).code).toBe(0);
    // Given or not given: taken and forgotten is what must not be.
    expect(['IN_QUEUE', 'COMPLETED']).toContain(platform.jobs.get('late')!.status);
  });

  it.each([
    ['the take, whose answer is lost', 'take', 'lose answer'],
    ['its first piece', 'stream', 'close'],
    ['its end', 'done', 'close'],
    ['its end, whose answer is lost', 'done', 'lose answer'],
  ] as const)('by kill -9 in %s leaves a job that is answered once', async (_step, step, fault) => {
    const { platform, endpoint, process } = await startEndpoint({ ...SLOW, lostAfterMs: 3000, holdMs: 500 });
    let isKilled = false;
    const submit = () => platform.submit('j', prompt(30, { stream: true }));
    platform.fault = ({ route }) => {
      if (isKilled || route !== step) return undefined;
      isKilled = true;
      // Given to this request, and to none that was open before.
      if (step === 'take') submit();
      // All of the container at one moment: a worker whose engine alone has died says that of its jobs.
      killTree(process.pid);
      return fault;
    };
    if (step !== 'take') submit();
    await process.exited;
    await startServerlessWorker(endpoint, SLOW);
    await until(() => platform.isOver('j'), 'it is over');
    expect((platform.jobs.get('j')!.output as string[]).join('')).toMatch(/data: \[DONE\]\n\n$/);
    await until(
      () => platform.of('ping').length > 0 && !heldIn(platform).includes('j'),
      'it is held no more',
    );
    expect(platform.violations).toEqual([]);
  });

  it('comes after each job where the worker is to be replaced', async () => {
    const { platform, process } = await startEndpoint({ env: { RUNPOD_REFRESH_WORKER: 'true' } });
    platform.submit('j', prompt(1));
    expect((await process.exited).code).toBe(0);
    expect(platform.jobs.get('j')).toMatchObject({ status: 'COMPLETED', stopPod: true });
  });

  it('comes when the engine dies, and what it ran has failed', async () => {
    const { platform, process, engineUrl } = await startEndpoint(SLOW);
    platform.submit('j', prompt(2000));
    await until(async () => (await engineRunning(engineUrl)) === 1, 'it runs');
    const [engine] = await processesWith(`--port ${new URL(engineUrl).port}`.replace(' ', '\0'));
    kill(engine!, 'SIGKILL');
    expect((await process.exited).code).toBe(EXIT.engineDied);
    expect(platform.jobs.get('j')).toMatchObject({
      status: 'FAILED',
      error: expect.stringContaining('engine died'),
    });
  });
});
