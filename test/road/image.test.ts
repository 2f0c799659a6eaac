import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type StagedImage, stageImage } from '../../scripts/stage-image.ts';
import type { JobView } from '../../src/protocol/index.ts';
import { type Container, canContain, startContainer } from '../support/container.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { stopAllProcesses } from '../support/processes.ts';
import { chatJob, stateFolder, tearDown } from '../support/road.ts';

/** Both images as their Dockerfiles describe them: only the files they copy, PID 1, a root nobody can write. */

const TOKEN = 'a-token-of-this-test';

let queueImage: Staged;
let workerImage: Staged;

beforeAll(() => {
  queueImage = stage('Dockerfile.queue');
  workerImage = stage('Dockerfile');
});
afterEach(stopAllProcesses);
afterAll(tearDown);

describe.skipIf(!canContain())('the images', () => {
  it('hold all that a job needs, drain on SIGTERM and end with 0', async () => {
    const queue = await startQueue();
    const worker = await startWorker(queue.url);
    await untilReady(queue.url);

    const init = await worker.init();
    expect(readFileSync(`/proc/${init}/status`, 'utf8')).toMatch(/^NSpid:\s+\d+\s+1$/m);
    expect(readFileSync(`/proc/${init}/cmdline`, 'utf8')).toContain('/opt/worker-vllm/entrypoint.sh');
    expect(worker.run(['touch', '/opt/worker-vllm/new']).output).toContain('Read-only file system');

    const first = await submit(queue.url, chatJob(8));
    expect((await settled(queue.url, first.id)).state).toBe('succeeded');

    // Long enough to be running at the signal, short enough for the grace.
    const second = await submit(queue.url, chatJob(60));
    await until(async () => (await job(queue.url, second.id)).state === 'leased', 'the second job runs');
    expect(await worker.stop(), worker.process.output()).toBe(0);
    expect((await job(queue.url, second.id)).state, worker.process.output()).toBe('succeeded');

    expect(await queue.container.stop(), queue.container.process.output()).toBe(0);
  });

  it('tell by their health checks whether they serve', async () => {
    const queue = await startQueue();
    const worker = await startWorker(queue.url, { VLLM_EXTRA_ARGS: '--startup-seconds 3' });
    await worker.init();
    await worker.process.waitForLine(/supervisor|engine/);
    expect(worker.run(workerImage.healthCheck).code).toBe(1);
    await untilReady(queue.url);
    expect(worker.run(workerImage.healthCheck)).toEqual({
      code: 0,
      output: expect.stringContaining('healthy'),
    });
    expect(queue.container.run(queueImage.healthCheck).code).toBe(0);
    await Promise.all([worker.stop(), queue.container.stop()]);
  });
});

type Staged = StagedImage & { root: string };

function stage(dockerfile: string): Staged {
  const root = stateFolder();
  return { ...stageImage(dockerfile, root), root };
}

async function startQueue(): Promise<{ container: Container; url: string }> {
  const port = await freePort();
  const container = startContainer(queueImage, queueImage.root, {
    name: 'the queue image',
    env: { QUEUE_PORT: String(port), QUEUE_TOKENS: `admin:${TOKEN}` },
    writable: ['/state'],
  });
  await container.process.waitForLine(/listening at/);
  return { container, url: `http://127.0.0.1:${port}` };
}

/** As Kubernetes would start it: a user without rights, and a home that is a volume. */
async function startWorker(queueUrl: string, more: NodeJS.ProcessEnv = {}): Promise<Container> {
  const env = {
    HOME: '/home/worker',
    ENGINE: 'simulator',
    VLLM_MODEL: 'tiny',
    VLLM_PORT: String(await freePort()),
    VLLM_EXTRA_ARGS: '--inter-token-latency-ms 50',
    CASOLA_WS_URL: queueUrl.replace(/^http/, 'ws'),
    CASOLA_API_URL: queueUrl,
    CASOLA_API_TOKEN: TOKEN,
    CASOLA_CONFIG_ID: 'cfg',
    CASOLA_INSTANCE_ID: 'in-a-container',
    CASOLA_SHUTDOWN_GRACE_PERIOD: '20',
    ...more,
  };
  return startContainer(workerImage, workerImage.root, {
    name: 'the worker image',
    env,
    writable: ['/home/worker'],
    user: '10001:10001',
  });
}

async function call<T>(url: string, init: RequestInit = {}): Promise<T> {
  const response = await fetch(url, { ...init, headers: { authorization: `Bearer ${TOKEN}` } });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

async function untilReady(queueUrl: string): Promise<void> {
  await until(
    async () => (await call<{ slots: number }>(`${queueUrl}/health`)).slots > 0,
    'a worker is ready',
  );
}

async function submit(queueUrl: string, body: Record<string, unknown>): Promise<JobView> {
  return await call(`${queueUrl}/api/jobs`, { method: 'POST', body: JSON.stringify(body) });
}

async function job(queueUrl: string, id: string, waitSeconds = 0): Promise<JobView> {
  return await call(`${queueUrl}/api/jobs/${id}?wait=${waitSeconds}`);
}

async function settled(queueUrl: string, id: string): Promise<JobView> {
  return await until(async () => {
    const view = await job(queueUrl, id, 20);
    return view.settled_at ? view : null;
  }, `job ${id} is settled`);
}
