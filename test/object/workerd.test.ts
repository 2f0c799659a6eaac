import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { EXIT } from '../../src/process/index.ts';
import { CLOSE } from '../../src/protocol/index.ts';
import { type RunningWorkerd, startWorkerd } from '../../src/workerd/process.ts';

let folder: string;
const started: RunningWorkerd[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'workerd-'));
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((workerd) => workerd.stop()));
  await rm(folder, { recursive: true });
});

async function start(options: { port?: number; stateDir?: string; bindings?: Record<string, string> } = {}) {
  const workerd = await startWorkerd({
    host: '127.0.0.1',
    port: 0,
    stateDir: join(folder, 'state'),
    bindings: {},
    ...options,
  });
  started.push(workerd);
  return workerd;
}

const JOB = { id: 'kept', job_type: 'chat_completion', config_id: 'c', payload: { messages: [] } };

describe('workerd', () => {
  it('serves the gateway at the port it names', async () => {
    const workerd = await start();
    const response = await fetch(`${workerd.url}/health`);
    expect(await response.json()).toMatchObject({ status: 'ok', queue_id: 'vllm-queue', workers: 0 });
    expect(new URL(workerd.url).port).toBe(String(workerd.port));
  });

  it('ends in order when a worker is connected: it is told to reconnect', async () => {
    const workerd = await start();
    const socket = new WebSocket(`${workerd.url.replace('http', 'ws')}/ws`);
    await new Promise((open) => socket.once('open', open));
    const closed = new Promise((close) => socket.once('close', close));
    await workerd.stop();
    expect(await closed).toBe(CLOSE.restarting);
    // A SIGKILL would show here: SIGTERM was enough.
    expect(await workerd.exited).toEqual({ code: 0, signal: null });
  });

  it('keeps what it acknowledged when it is killed, and its folder can be used again', async () => {
    const first = await start();
    const headers = { 'content-type': 'application/json' };
    const submitted = await fetch(`${first.url}/api/jobs`, {
      method: 'POST',
      headers,
      body: JSON.stringify(JOB),
    });
    expect(submitted.status).toBe(201);
    first.kill();
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' });

    const second = await start();
    const job = await (await fetch(`${second.url}/api/jobs/kept`)).json();
    expect(job).toMatchObject({ id: 'kept', state: 'pending' });
  });

  it('names a port that is in use', async () => {
    const server = createServer();
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const { port } = server.address() as { port: number };
    try {
      await expect(start({ port })).rejects.toMatchObject({
        exitCode: EXIT.portInUse,
        message: expect.stringContaining(`Port ${port} `),
      });
    } finally {
      await new Promise((closed) => server.close(closed));
    }
  });

  it('refuses a state folder that is in use, and takes one whose start failed', async () => {
    const first = await start();
    await expect(start()).rejects.toThrow(/state folder .* is in use/);
    await first.stop();
    await start();
  });
});
