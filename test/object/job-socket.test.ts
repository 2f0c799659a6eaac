import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { JobConnection, type JobEnd } from '../../src/client/index.ts';
import { FaultyProxy } from '../support/faulty-proxy.ts';
import { until } from '../support/poll.ts';
import { RawWorker } from '../support/raw-worker.ts';
import { startTestWorkerd } from '../support/workerd-queue.ts';

/** Programs that submit many jobs over one socket, against a real workerd. */
const road = startTestWorkerd({ RECONNECT_GRACE_SECONDS: '2', MAX_PENDING: '2000' });
let network: FaultyProxy;
const sockets: WebSocket[] = [];

beforeAll(async () => {
  network = await new FaultyProxy(Number(new URL(road.url).port), Math.random).listen();
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.terminate();
});
afterAll(() => network.close());

const { newQueue } = road;
const connect = (queueId: string, inFlight = 256, pingSeconds = 15) =>
  new JobConnection({ url: `http://127.0.0.1:${network.port}`, queueId, inFlight, pingSeconds });

const chat = (id: string, pool = 'cfg') => ({
  id,
  job_type: 'chat_completion' as const,
  config_id: pool,
  payload: { messages: [{ role: 'user', content: id }] },
});
const chats = (count: number) => Array.from({ length: count }, (_, n) => chat(`job-${n}`));

interface Frame {
  type: string;
  job_id: string;
  fence_token: number;
}

/** A worker that answers every job with its own id, and counts how often it was given each. */
async function echo(queueId: string, capacity = 64): Promise<{ ran: Map<string, number> }> {
  const socket = new WebSocket(`${road.url.replace('http', 'ws')}/ws?queue_id=${queueId}`);
  sockets.push(socket);
  const send = (frame: object) => socket.send(JSON.stringify(frame));
  const ran = new Map<string, number>();
  await new Promise<void>((resolve) => {
    socket.on('open', () => {
      const instance = { id: 'w', models: ['tiny'], boot_id: crypto.randomUUID() };
      const more = { protocol: 1, instance };
      send({ type: 'register', worker_id: 'w', config_id: 'cfg', capacity, ...more });
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

async function collect(ends: AsyncIterable<JobEnd>): Promise<Map<string, JobEnd>> {
  const found = new Map<string, JobEnd>();
  for await (const end of ends) {
    expect(found.has(end.id), `${end.id} ended twice`).toBe(false);
    found.set(end.id, end);
  }
  return found;
}

const answers = (ends: Map<string, JobEnd>) =>
  [...ends.values()].map((end) => 'job' in end && (end.job.result as { answer: string }).answer === end.id);

describe('a job connection', () => {
  it('runs many jobs and gives each back once, as it ends', async () => {
    const queue = newQueue();
    const { ran } = await echo(queue);
    const ends = await collect(connect(queue, 100).results(chats(500)));
    expect(ends.size).toBe(500);
    expect(answers(ends).every(Boolean)).toBe(true);
    expect([...ran.values()].every((times) => times === 1)).toBe(true);
  });

  it('says of each job that is not taken why, and goes on with the others', async () => {
    const queue = newQueue();
    await echo(queue);
    const odd = { ...chat('odd'), job_type: 'engine_request' as const, payload: { path: '/sleep' } };
    const ends = await collect(connect(queue).results([chat('a'), odd, chat('b')]));
    expect(ends.get('odd')).toMatchObject({
      error: { status: 400, message: expect.stringContaining('/sleep') },
    });
    expect(ends.get('a')).toMatchObject({ job: { state: 'succeeded' } });
    expect(ends.get('b')).toMatchObject({ job: { state: 'succeeded' } });
  });

  it('loses nothing and runs nothing twice when the network breaks again and again', async () => {
    const queue = newQueue();
    const { ran } = await echo(queue);
    const ended = collect(connect(queue, 50).results(chats(600)));
    for (const share of [50, 150, 300, 450]) {
      await until(() => ran.size >= share || null, `${share} jobs to run`);
      network.cut();
    }
    const ends = await ended;
    expect(ends.size).toBe(600);
    expect(answers(ends).every(Boolean)).toBe(true);
    expect([...ran.values()].every((times) => times === 1)).toBe(true);
  });

  it('goes on when the network goes away and nobody is told', async () => {
    const queue = newQueue();
    const played = await (await new RawWorker(road.url).connect(queue)).register('w');
    const ended = connect(queue, 1, 0.5).run(chat('a'));
    const job = await played.job();
    network.halfOpen('neither');
    played.result(job);
    expect(await ended).toMatchObject({ state: 'succeeded' });
  });

  it('refuses a job that is too large by itself, and runs the others', async () => {
    const queue = newQueue();
    await echo(queue);
    const large = { ...chat('large'), payload: { text: 'x'.repeat(22 * 1024 * 1024) } };
    const ends = await collect(connect(queue).results([chat('a'), large, chat('b')]));
    expect(ends.get('large')).toMatchObject({ error: { status: 413, code: 'too_large' } });
    expect(answers(new Map([...ends].filter(([id]) => id !== 'large')))).toEqual([true, true]);
  });

  it('goes on after the queue was killed', async () => {
    const queue = newQueue();
    const first = await echo(queue, 4);
    const ended = collect(connect(queue, 50).results(chats(200)));
    await until(() => first.ran.size >= 40 || null, '40 jobs to run');
    await road.killAndRestart();
    await echo(queue);
    const ends = await ended;
    expect(ends.size).toBe(200);
    expect(answers(ends).every(Boolean)).toBe(true);
  });

  it('tells of a job that had ended before it was submitted again', async () => {
    const queue = newQueue();
    await echo(queue);
    await connect(queue).run(chat('same'));
    expect(await connect(queue).run(chat('same'))).toMatchObject({
      state: 'succeeded',
      result: { answer: 'same' },
    });
  });

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

  it('waits while the queue is full', async () => {
    const queue = newQueue();
    const ended = collect(connect(queue, 2500).results(chats(2300)));
    await until(async () => {
      const response = await fetch(`${road.url}/health`, { headers: { 'x-queue-id': queue } });
      return ((await response.json()) as { pending: number }).pending === 2000 || null;
    }, 'the queue to be full');
    await echo(queue);
    expect((await ended).size).toBe(2300);
  });

  it('reads a result too long for a frame at its own address', async () => {
    const queue = newQueue();
    const worker = new RawWorker(road.url);
    await worker.connect(queue);
    await worker.register('w');
    const ended = connect(queue).run(chat('long'));
    worker.result(await worker.job(), { status: 'success', text: 'x'.repeat(3_000_000) });
    expect(((await ended).result as { text: string }).text).toHaveLength(3_000_000);
  });

  it('ends with an error when it is closed', async () => {
    const connection = connect(newQueue());
    const ended = connection.run(chat('never'));
    connection.close();
    await expect(ended).rejects.toMatchObject({ code: 'closed' });
  });
});
