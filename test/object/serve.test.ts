import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { EXIT, type Logger } from '../../src/process/index.ts';
import { CLOSE } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { type QueueProcess, startQueueProcess } from '../support/queue-process.ts';

const folders: string[] = [];
const started: QueueProcess[] = [];

afterAll(async () => {
  await Promise.all(started.map((queue) => queue.stop()));
  await Promise.all(folders.map((folder) => rm(folder, { recursive: true })));
});

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'serve-'));
  folders.push(folder);
  return folder;
}

async function start(folder: string, more: Partial<Parameters<typeof startQueueProcess>[0]> = {}) {
  const queue = await startQueueProcess({
    host: '127.0.0.1',
    port: 0,
    stateDir: join(folder, 'state'),
    bindings: {},
    ...more,
  });
  started.push(queue);
  return queue;
}

const JOB = { id: 'kept', job_type: 'chat_completion', config_id: 'c', payload: { messages: [] } };

// It takes 30 s until a body is too slow: the other tests run meanwhile.
describe.concurrent('a queue that runs', () => {
  let folder: string;
  let queue: QueueProcess;
  beforeAll(async () => {
    folder = await newFolder();
    queue = await start(folder);
  });

  it.each([100, 1_000_000])('answers a body of %d bytes that does not come with 408', async (length) => {
    const socket = connect(queue.port, '127.0.0.1');
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: ${length}\r\n\r\n{"a":`,
    );
    expect(await text(socket)).toMatch(/^HTTP\/1.1 408 .*body_too_slow/s);
  });

  it('serves the gateway at the port it names', async () => {
    const response = await fetch(`${queue.url}/health`);
    expect(await response.json()).toMatchObject({ status: 'ok', queue_id: 'vllm-queue', workers: 0 });
    expect(new URL(queue.url).port).toBe(String(queue.port));
  });

  it('makes no database for strangers who name queues and jobs', async () => {
    await fetch(`${queue.url}/health`);
    const files = async () => (await readdir(join(folder, 'state', 'data'), { recursive: true })).sort();
    const before = await files();
    const statuses = new Set<number>();
    for (let i = 0; i < 40; i++) {
      const address = (what: string) =>
        `${queue.url}/jobs/a/${what}?fence_token=1&key=x&queue_id=${i % 2 ? 'vllm-queue' : `random-${i}`}`;
      statuses.add((await fetch(address('payload'))).status);
      statuses.add((await fetch(address('result'), { method: 'PUT', body: '{}' })).status);
      statuses.add((await fetch(`${queue.url}/api/workers?queue_id=random-${i}`)).status);
    }
    expect([...statuses]).toEqual([404]);
    expect(await files()).toEqual(before);
  });

  it.each(['a b', '[', '127.0.0.1/v1/chat', 'user@127.0.0.1', "a;script-src 'unsafe-inline'", 'a;b', 'a,b'])(
    'answers the Host header %j with 400',
    async (host) => {
      const socket = connect(queue.port, '127.0.0.1');
      socket.end(`GET /v1/models HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
      expect(await text(socket)).toMatch(/^HTTP\/1.1 400 /);
    },
  );
});

describe.concurrent('the process of a queue', () => {
  it('ends in order when a worker is connected: it is told to reconnect', async () => {
    const queue = await start(await newFolder());
    const socket = new WebSocket(`${queue.url.replace('http', 'ws')}/ws`);
    await new Promise((open) => socket.once('open', open));
    const closed = new Promise((close) => socket.once('close', close));
    await queue.stop();
    expect(await closed).toBe(CLOSE.restarting);
    expect(await queue.exited).toEqual({ code: 0, signal: null });
  });

  it('keeps what it acknowledged when it is killed, and its folder can be used again', async () => {
    const folder = await newFolder();
    const first = await start(folder);
    const headers = { 'content-type': 'application/json' };
    const submitted = await fetch(`${first.url}/api/jobs`, {
      method: 'POST',
      headers,
      body: JSON.stringify(JOB),
    });
    expect(submitted.status).toBe(201);
    first.kill();
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' });

    const second = await start(folder);
    const job = await (await fetch(`${second.url}/api/jobs/kept`)).json();
    expect(job).toMatchObject({ id: 'kept', state: 'pending' });
  });

  it('keeps the secret of file keys for its owner alone, over restarts', async () => {
    const folder = await newFolder();
    const path = join(folder, 'state', 'file-key-secret');
    await (await start(folder)).stop();
    const secret = await readFile(path, 'utf8');
    expect(secret.length).toBeGreaterThan(60);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    await start(folder);
    expect(await readFile(path, 'utf8')).toBe(secret);
  });

  it('goes on after an error that nothing catches, and logs it', async () => {
    const logged: string[] = [];
    const log = (...said: unknown[]) => void logged.push(JSON.stringify(said));
    const folder = await newFolder();
    const plant = join(folder, 'plant.mjs');
    await writeFile(
      plant,
      `const timer = setInterval(() => {
        if (!process.hasUncaughtExceptionCaptureCallback()) return;
        clearInterval(timer);
        Promise.reject(new Error('sown'));
        throw new Error('planted');
      }, 10);`,
    );
    const queue = await start(folder, {
      logger: { debug: log, info: log, warn: log, error: log } as unknown as Logger,
      env: { NODE_OPTIONS: `--import ${plant}` },
    });
    for (const what of ['planted', 'sown'])
      await until(() => logged.some((line) => line.includes(what)), `${what} is logged`);
    expect((await fetch(`${queue.url}/health`)).status).toBe(200);
  });

  it('names a port that is in use', async () => {
    const server = createServer();
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const { port } = server.address() as { port: number };
    try {
      await expect(start(await newFolder(), { port })).rejects.toMatchObject({
        exitCode: EXIT.portInUse,
        message: expect.stringContaining(`Port ${port} `),
      });
    } finally {
      await new Promise((closed) => server.close(closed));
    }
  });

  it('refuses a state folder that is in use, and takes one whose start failed', async () => {
    const folder = await newFolder();
    const first = await start(folder);
    await expect(start(folder)).rejects.toThrow(/state folder .* is in use/);
    await first.stop();
    await start(folder);
  });
});
