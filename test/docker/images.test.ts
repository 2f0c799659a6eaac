import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { chatJob } from '../support/road.ts';
import { docker, logOf, newName, newNetwork, removeAll, start, stateOf, tried } from './containers.ts';
import { build, ENGINE_VERSION, IMAGES } from './images.ts';
import { call, jobOf, startQueue, startWorker, untilJob, untilReady } from './road.ts';

const NODE_VERSION = process.env.TEST_NODE_VERSION!;
const run = (image: string, ...command: string[]) =>
  tried('run', '--rm', '--entrypoint', command[0]!, image, ...command.slice(1));

afterEach(removeAll);

describe('the images', () => {
  it('hand back on `docker stop` what cannot end in time, uncharged, finish the rest, and end with 0', async () => {
    const network = await newNetwork();
    const queue = await startQueue(network);
    const first = await startWorker(network, queue, {
      CASOLA_SHUTDOWN_GRACE_PERIOD: '10',
      CASOLA_MAX_JOBS: '2',
    });
    await untilReady(queue);
    // Two seconds, and a minute, of which the grace is ten seconds.
    const short = await call<JobView>(queue, '/api/jobs', chatJob(40));
    const long = await call<JobView>(queue, '/api/jobs', chatJob(1200));
    // The short one was given out before it, and may be over on a busy machine.
    await untilJob(queue, long.id, 'leased');

    await docker('stop', '--time', '30', first);
    expect(await stateOf(first), await logOf(first)).toMatchObject({ Status: 'exited', ExitCode: 0 });
    expect(await jobOf(queue, short.id)).toMatchObject({ state: 'succeeded' });
    expect(await jobOf(queue, long.id)).toMatchObject({ state: 'pending', attempts: 0 });

    await startWorker(network, queue, { VLLM_EXTRA_ARGS: '--inter-token-latency-ms 1' });
    await untilJob(queue, long.id, 'succeeded');
    await docker('stop', '--time', '30', queue.name);
    expect(await stateOf(queue.name), await logOf(queue.name)).toMatchObject({
      Status: 'exited',
      ExitCode: 0,
    });
  });

  it('run with a root that nobody can write, as a user that they do not know', async () => {
    const network = await newNetwork();
    const queue = await startQueue(network);
    const worker = await startWorker(network, queue);
    await untilReady(queue);
    for (const name of [queue.name, worker]) {
      expect(await tried('exec', name, 'id', '-u')).toMatchObject({ stdout: '12345\n' });
      const { stderr } = await tried('exec', name, 'touch', '/opt/worker-vllm/new');
      expect(stderr).toContain('Read-only file system');
    }
  });

  it('hold what their commands need and nothing else of ours', async () => {
    const list = async (image: string) =>
      (await run(image, 'ls', '/opt/worker-vllm')).stdout.trim().split('\n');
    expect(await list(IMAGES.worker)).toEqual([
      'LICENSE',
      'bin',
      'dist',
      'entrypoint.sh',
      'flags',
      'package.json',
    ]);
    expect(await list(IMAGES.queue)).toEqual(['LICENSE', 'bin', 'dist', 'package.json']);
    for (const image of [IMAGES.worker, IMAGES.queue]) {
      expect(await run(image, 'worker-vllm', '--help')).toMatchObject({ code: 0 });
    }
  });

  it('start on a base without certificates', async () => {
    expect(await run(IMAGES.queue, 'ls', '/etc/ssl/certs/ca-certificates.crt')).toMatchObject({ code: 2 });
    const queue = await startQueue(await newNetwork());
    expect((await fetch(`${queue.url}/health`)).ok).toBe(true);
  });
});

describe("the worker's image", () => {
  it('keeps a token for its model out of every layer and out of its history', async () => {
    const token = `hf_${'x'.repeat(20)}${process.pid}`;
    const tag = newName('baked');
    process.env.HF_TOKEN = token;
    try {
      // A name of this run's own: a daemon keeps what an earlier run built, whatever its secret was.
      const args = { NODE_VERSION, VLLM_VERSION: ENGINE_VERSION, MODEL_NAME: `owner/model-${process.pid}` };
      build('.', tag, args, 'Dockerfile', ['--secret', 'id=HF_TOKEN,env=HF_TOKEN']);
      // The build had it.
      const { stdout } = await run(tag, 'cat', '/models/token.sha256');
      expect(stdout).toContain(createHash('sha256').update(token).digest('hex'));
      const search = `docker save ${tag} | grep --text --count --fixed-strings ${token}`;
      expect(await shell(search)).toBe('0');
      expect(await docker('history', '--no-trunc', tag)).not.toContain(token);
      expect(await docker('inspect', tag)).not.toContain(token);
      expect(await docker('inspect', '--format', '{{.Config.Env}}', tag)).toContain('HF_HUB_OFFLINE=1');
      expect(await docker('inspect', '--format', '{{.Config.Env}}', IMAGES.worker)).not.toContain('HF_HUB');
    } finally {
      delete process.env.HF_TOKEN;
      await tried('image', 'rm', '--force', tag);
    }
  });

  it('knows the flags of its engine from its build, so that no container asks for them', async () => {
    const name = await start(
      newName('flags'),
      ...['--env', 'VLLM_MODEL=tiny', '--env', 'GPU_CHECK=off', '--env', 'MAX_MODEL_LEN=1024'],
      ...['--env', 'CASOLA_WS_URL=ws://127.0.0.1:1', '--env', 'CASOLA_CONFIG_ID=cfg', IMAGES.worker],
    );
    await untilCalled(name);
    expect(await docker('exec', name, 'cat', '/tmp/vllm-calls')).toMatch(
      /^serve tiny .*--max-model-len 1024[^\n]*$/,
    );
    expect(await logOf(name)).not.toContain('asking the engine');
    expect(await docker('exec', name, 'cat', '/proc/1/cmdline')).toContain('/opt/worker-vllm/entrypoint.sh');
  });

  it('is built over an engine that does not tell its flags', async () => {
    const [engine, tag] = [newName('engine'), newName('mute')];
    try {
      build(join('test/docker/mute-engine'), `vllm/vllm-openai:v${engine}`, {});
      build('.', tag, { NODE_VERSION, VLLM_VERSION: engine });
      expect((await run(tag, 'ls', '/opt/worker-vllm')).stdout).not.toContain('flags');
    } finally {
      await tried('image', 'rm', '--force', tag, `vllm/vllm-openai:v${engine}`);
    }
  });
});

async function untilCalled(name: string): Promise<void> {
  await until(
    async () => (await tried('exec', name, 'test', '-s', '/tmp/vllm-calls')).code === 0,
    'the engine is called',
  );
}

async function shell(command: string): Promise<string> {
  return await new Promise(
    (done) => void execFile('sh', ['-c', command], (_, stdout) => done(stdout.trim())),
  );
}
