import { execFileSync } from 'node:child_process';
import { readdirSync, readlinkSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Child, startProcess } from '../support/processes.ts';
import { closeRawWorkers, RawWorker } from '../support/raw-worker.ts';
import {
  chatJob,
  cleanEnvironment,
  job,
  startQueue,
  stateFolder,
  submit,
  tearDown,
} from '../support/road.ts';

/** What many connections do to a queue: each takes a descriptor, and beyond a share of them others are closed. */
const CLI = fileURLToPath(new URL('../../bin/worker-vllm.js', import.meta.url));
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await closeRawWorkers();
});
afterAll(tearDown);

const hardLimit = Number(execFileSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' })) || Infinity;

/** A queue whose shell has set a limit, as in `-S -n 1024`. */
async function queueWithin(
  limit: string,
  env: NodeJS.ProcessEnv = {},
): Promise<{ process: Child; url: string; port: number; stateDir: string }> {
  const [port, stateDir] = [await freePort(), stateFolder()];
  const script = `ulimit ${limit}; exec "$0" "$@"`;
  const args = ['-c', script, process.execPath, CLI, 'queue', '--port', String(port), '--state', stateDir];
  const queue = startProcess('sh', args, { env: cleanEnvironment(env) });
  await queue.waitForLine(/listening at/);
  return { process: queue, url: `http://127.0.0.1:${port}`, port, stateDir };
}

/** Opens connections, says the same on each, and keeps them. */
async function crowd(port: number, count: number, text = ''): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    socket.on('error', () => {});
    socket.resume();
    sockets.push(socket);
    if (text) socket.write(text);
    if (i % 50 === 0) await new Promise((done) => setTimeout(done, 5));
  }
}

async function isUp(url: string): Promise<boolean> {
  return fetch(`${url}/health`).then(
    (response) => response.ok,
    () => false,
  );
}

function openFiles({ pid }: Child): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Whether the database of a queue id is open. */
function isOpen({ pid }: Child, queueId: string): boolean {
  return readdirSync(`/proc/${pid}/fd`).some((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).includes(`/${queueId}/queue.sqlite`);
    } catch {
      return false;
    }
  });
}

describe.runIf(process.platform === 'linux')('a crowd of connections', () => {
  it.skipIf(hardLimit < 6000)('does not end a queue whose soft limit alone is low', async () => {
    const queue = await queueWithin('-S -n 1024');
    await crowd(queue.port, 2000);
    await until(() => openFiles(queue.process) > 2000, 'they are accepted');
    expect(await isUp(queue.url)).toBe(true);
    expect(queue.process.output()).not.toMatch(/files may be open|files are open/);
  });

  it('is warned of at a low limit, and when it takes all connections the queue serves on', async () => {
    const queue = await queueWithin('-n 300');
    expect(queue.process.output()).toContain('only 300 files may be open at once');
    await submit(queue.url, chatJob(1, { id: 'kept' }));
    await crowd(queue.port, 400);
    await queue.process.waitForLine(/of 300 files are open; beyond 240 connections others are closed/);
    for (const socket of sockets.splice(0)) socket.destroy();
    await until(() => isUp(queue.url), 'it serves those who come later');
    expect(await job(queue.url, 'kept')).toMatchObject({ state: 'pending' });
    queue.process.kill('SIGTERM');
    expect((await queue.process.exited).code).toBe(0);
  });

  it('that asked for jobs to be settled and left is noticed', async () => {
    const queue = await startQueue();
    await submit(queue.url, chatJob(1, { id: 'never' }));
    const before = openFiles(queue.process);
    await crowd(queue.port, 30, 'GET /api/jobs/never?wait=300 HTTP/1.1\r\nhost: localhost\r\n\r\n');
    await until(() => openFiles(queue.process) >= before + 30, 'they wait');
    // In order, as most callers leave: nothing of it is seen before something is written to them.
    for (const socket of sockets) socket.end();
    await new Promise((done) => setTimeout(done, 500));
    for (const socket of sockets.splice(0)) socket.destroy();
    await until(() => openFiles(queue.process) < before + 10, 'their descriptors are free', {
      timeoutMs: 40_000,
    });
  });
});

describe.runIf(process.platform === 'linux')('many queue ids that somebody makes up', () => {
  it('are each answered with a status, and the jobs of one that was closed meanwhile are run', async () => {
    const queue = await queueWithin('-n 600', { QUEUE_IDS: '*' });
    const mine = { 'x-queue-id': 'mine', 'content-type': 'application/json' };
    const body = JSON.stringify({ ...chatJob(1), id: 'waits' });
    expect((await fetch(`${queue.url}/api/jobs`, { method: 'POST', headers: mine, body })).status).toBe(201);
    const request = JSON.stringify({ model: 'tiny', messages: [{ role: 'user', content: 'x' }] });
    const ask = async (id: string) => {
      const asked = { method: 'POST', headers: { 'x-queue-id': id }, body: request };
      const response = await fetch(`${queue.url}/v1/chat/completions`, asked);
      let text = '';
      try {
        for await (const piece of response.body!) text += Buffer.from(piece).toString();
      } catch {
        // An answer that takes 1.5 s, as on a busy machine, begins with 200 and breaks off behind its error.
        expect(response.status).toBe(200);
      }
      expect(text).toContain('"error"');
      return response;
    };
    let most = 0;
    for (let round = 0; round < 3; round += 1) {
      const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => ask(`made-up-${round}-${n}`)));
      most = Math.max(most, openFiles(queue.process));
      const busy = answers.filter(({ status }) => status === 503);
      expect(busy.filter(({ headers }) => !Number(headers.get('retry-after')))).toEqual([]);
      // No worker serves the model.
      const others = answers.map(({ status }) => status).filter((status) => status !== 503);
      expect(others.filter((status) => status !== 404 && status !== 200)).toEqual([]);
    }
    // 100 of them are connections, and objects that are being closed still have theirs.
    expect(most).toBeLessThan(400);
    await until(async () => {
      // Those that are open are closed for others.
      if (isOpen(queue.process, 'mine')) await ask(`made-up-${Math.random()}`);
      return !isOpen(queue.process, 'mine');
    }, 'the object with the waiting job is closed');
    const worker = await (await new RawWorker(queue.url).connect('mine')).register('w');
    expect(await worker.job()).toMatchObject({ job_id: 'waits' });
  });
});
