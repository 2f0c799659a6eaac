import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { parseDockerfile, stageChain } from '../../scripts/dockerfile.ts';
import { type StagedImage, stageImage } from '../../scripts/stage-image.ts';
import type { JobView } from '../../src/protocol/index.ts';
import { type Container, canContain, startContainer } from '../support/container.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Child, stopAllProcesses } from '../support/processes.ts';
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

describe.skipIf(!canContain())("the worker's image", () => {
  /** The simulator by the name of vLLM; it notes how it was called. */
  const STAND_IN = `#!/bin/sh
echo "$*" >>/tmp/vllm-calls
shift
exec node /opt/worker-vllm/dist/programs/simulator.js "$@"
`;

  it('knows the flags of its engine from its build, so that no container asks for them', async () => {
    const { image, build } = await buildWith(STAND_IN);
    expect((await build.exited).code, build.output()).toBe(0);
    expect(build.output()).toContain('asking the engine for its flags');

    const port = String(await freePort());
    const env = { ENGINE: 'vllm', GPU_CHECK: 'off', MAX_MODEL_LEN: '1024', VLLM_PORT: port };
    const worker = await startWorker('http://127.0.0.1:1', env, image);
    const models = await until(
      async () => (await (await fetch(`http://127.0.0.1:${port}/v1/models`)).json()) as ModelList,
      'the engine tells its models',
    );
    expect(models.data[0]?.max_model_len).toBe(1024);
    expect(worker.process.output()).not.toContain('asking the engine');
    expect(worker.run(['cat', '/tmp/vllm-calls']).output).toMatch(/^serve tiny .*--max-model-len 1024.*\n$/);
    await worker.stop();
  });

  it('is built all the same where the engine does not tell its flags', async () => {
    const { image, build } = await buildWith('#!/bin/sh\necho "RuntimeError: no GPU here" >&2\nexit 1\n');
    expect((await build.exited).code, build.output()).toBe(0);
    expect(existsSync(join(image.root, 'opt/worker-vllm/flags'))).toBe(false);
  });

  /** The step of the Dockerfile that asks the engine, run over a stand-in for the program. */
  async function buildWith(vllm: string): Promise<{ image: Staged; build: Child }> {
    const image = stage('Dockerfile');
    const program = join(image.root, 'usr/local/bin/vllm');
    writeFileSync(program, vllm);
    chmodSync(program, 0o755);
    const stages = parseDockerfile(readFileSync(join(import.meta.dirname, '../../Dockerfile'), 'utf8'));
    const step = stageChain(stages).instructions.find(({ text }) => text.includes('--print-command'))!;
    const script = step.text.replaceAll(/--mount=\S+/g, '');
    const { process: build } = startContainer(
      { ...image, entrypoint: ['sh', '-c', script], command: [] },
      image.root,
      { name: 'a build', env: {}, isBuild: true },
    );
    return { image, build };
  }
});

interface ModelList {
  data: { max_model_len: number }[];
}

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
async function startWorker(
  queueUrl: string,
  more: NodeJS.ProcessEnv = {},
  image: Staged = workerImage,
): Promise<Container> {
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
  return startContainer(image, image.root, {
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
