import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { JobConnection } from '../../src/client/index.ts';
import { until } from '../support/poll.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** The socket for jobs, frame by frame. What programs make of it: test/support/job-clients/scenarios.ts. */
const road = startTestQueue({ RECONNECT_GRACE_SECONDS: '2' });
const sockets: WebSocket[] = [];

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.terminate();
});

const { newQueue } = road;
const connect = (queueId: string) => new JobConnection({ url: road.url, queueId });

const chat = (id: string, pool = 'cfg') => ({
  id,
  job_type: 'chat_completion' as const,
  config_id: pool,
  payload: { messages: [{ role: 'user', content: id }] },
});

interface Frame {
  type: string;
  job_id: string;
  fence_token: number;
}

/** A worker that answers every job with its own id, and counts how often it was given each. */
async function echo(queueId: string): Promise<{ ran: Map<string, number> }> {
  const socket = new WebSocket(`${road.url.replace('http', 'ws')}/ws?queue_id=${queueId}`);
  sockets.push(socket);
  const send = (frame: object) => socket.send(JSON.stringify(frame));
  const ran = new Map<string, number>();
  await new Promise<void>((resolve) => {
    socket.on('open', () => {
      const instance = { id: 'w', models: ['tiny'], boot_id: crypto.randomUUID() };
      const more = { protocol: 1, instance };
      send({ type: 'register', worker_id: 'w', config_id: 'cfg', capacity: 64, ...more });
    });
    socket.on('message', (data) => {
      const said = JSON.parse(String(data)) as Frame | Frame[];
      for (const { type, job_id, fence_token } of [said].flat()) {
        if (type === 'registered') resolve();
        if (type !== 'job') continue;
        ran.set(job_id, (ran.get(job_id) ?? 0) + 1);
        send({ type: 'job_result', job_id, fence_token, result: { status: 'success', answer: job_id } });
      }
    });
  });
  return { ran };
}

describe('the socket for jobs', () => {
  it('tells at once of jobs that had ended before they were listened for', async () => {
    const queue = newQueue();
    const { ran } = await echo(queue);
    const ended = ['ended', 'too', 'three'];
    for (const id of ended) await connect(queue).run(chat(id));
    const socket = new WebSocket(`${road.url.replace('http', 'ws')}/api/jobs/socket?queue_id=${queue}`);
    sockets.push(socket);
    const heard: string[] = [];
    socket.on('message', (data) => heard.push(String(data)));
    await new Promise((resolve) => socket.on('open', resolve));
    // Something is open, so the queue has been asked what has settled.
    socket.send(JSON.stringify({ type: 'submit', jobs: [chat('waits', 'another')] }));
    await until(() => heard.length === 1, 'it to be taken');
    for (const id of ended) {
      heard.length = 0;
      socket.send(JSON.stringify({ type: 'listen', ids: [id] }));
      await until(() => heard.length === 1, `${id} to be told`, { timeoutMs: 15_000 });
      expect(JSON.parse(heard[0]!)).toMatchObject({ type: 'settled', jobs: [{ id }] });
    }
    expect(ran.size).toBe(3);
  });
});
