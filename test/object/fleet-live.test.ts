import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import type { FleetFrame, FleetHistory, FleetView } from '../../src/protocol/index.ts';
import { type MiniflareQueue, startMiniflareQueue } from '../support/miniflare-queue.ts';
import { until } from '../support/poll.ts';
import { closeRawWorkers, RawWorker } from '../support/raw-worker.ts';

/** The fleet as it is shown, over HTTP and live, from the object in a real process. */
const TOKEN = 'secret';
const SHA256 = '2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b';
let road: MiniflareQueue;

beforeAll(async () => {
  road = await startMiniflareQueue({
    QUEUE_IDS: '*',
    TOKENS: JSON.stringify([{ name: 'all', sha256: SHA256, scopes: ['admin'] }]),
  });
});
const viewers: Viewer[] = [];
afterEach(() => {
  for (const viewer of viewers.splice(0)) viewer.socket.terminate();
  closeRawWorkers();
});
afterAll(() => road.stop());

let queueNumber = 0;
const newQueue = () => `live-${++queueNumber}`;
const headersOf = (queue: string) => ({ authorization: `Bearer ${TOKEN}`, 'x-queue-id': queue });

async function view(queue: string): Promise<FleetView> {
  return (await fetch(`${road.url}/api/fleet`, { headers: headersOf(queue) })).json() as Promise<FleetView>;
}
const beat = (queue: string, body: object) =>
  fetch(`${road.url}/api/heartbeats`, {
    method: 'POST',
    headers: headersOf(queue),
    body: JSON.stringify(body),
  });
const worker = async (queue: string, id: string) =>
  (await new RawWorker(road.url, TOKEN).connect(queue)).register(id, {
    instance: { id, models: ['tiny'], gpu: 'H100' },
    capacity: 4,
  });

/** One who looks at a fleet, and what was sent to it. */
class Viewer {
  readonly texts: string[] = [];
  closed: number | null = null;
  readonly socket: WebSocket;

  private constructor(queue: string) {
    const url = `${road.url.replace('http', 'ws')}/api/fleet/live?queue_id=${queue}`;
    this.socket = new WebSocket(url, { headers: { authorization: `Bearer ${TOKEN}` } });
    this.socket.on('message', (data) => this.texts.push(String(data)));
    this.socket.on('close', (code) => {
      this.closed = code;
    });
    viewers.push(this);
  }

  static async open(queue: string): Promise<Viewer> {
    const viewer = new Viewer(queue);
    await new Promise((opened, failed) => viewer.socket.once('open', opened).once('error', failed));
    return viewer;
  }

  say(frame: object): void {
    this.socket.send(JSON.stringify(frame));
  }

  frames(): FleetFrame[] {
    return this.texts.filter((text) => text.startsWith('{')).map((text) => JSON.parse(text) as FleetFrame);
  }

  /** The fleet as this viewer knows it, by its frames alone. */
  known(): FleetView {
    const [first, ...rest] = this.frames();
    if (first?.type !== 'full') throw new Error('the first frame is not a full one');
    return rest.reduce(applied, first.view);
  }
}

function applied(view: FleetView, frame: FleetFrame): FleetView {
  if (frame.type === 'full') return frame.view;
  const { version, at, summary, attention, gone } = frame;
  const workers = new Map(view.workers.map((row) => [row.worker_id, row]));
  for (const row of frame.workers) workers.set(row.worker_id, row);
  for (const id of gone.workers) workers.delete(id);
  const pools = new Map(view.pools.map((row) => [row.config_id, row]));
  for (const row of frame.pools) pools.set(row.config_id, row);
  for (const id of gone.pools) pools.delete(id);
  return {
    ...view,
    version,
    at,
    summary,
    attention,
    workers: [...workers.values()],
    pools: [...pools.values()],
  };
}

describe('GET /api/fleet', () => {
  it('says of a queue without workers that none has connected yet', async () => {
    expect(await view(newQueue())).toMatchObject({
      summary: { verdict: 'empty', text: 'No worker has connected yet.', workers: 0 },
      attention: [],
      workers: [],
      pools: [],
    });
  });

  it('shows a worker with its heartbeat, and its pool', async () => {
    const queue = newQueue();
    await worker(queue, 'w');
    await beat(queue, { instance_id: 'w', status: 'running', tokens_per_second: 12.5, kv_cache_usage: 0.5 });
    await until(async () => (await view(queue)).workers[0]?.state === 'ready', 'it is ready');
    expect(await view(queue)).toMatchObject({
      queue_id: queue,
      summary: { verdict: 'serving', workers: 1, ready_workers: 1, slots: 4, tokens_per_second: 12.5 },
      workers: [
        { worker_id: 'w', config_id: 'cfg', models: ['tiny'], slots: 4, running: 0, kv_cache_usage: 0.5 },
      ],
      pools: [{ config_id: 'cfg', workers: 1, ready_workers: 1, slots: 4, busy_slots: 0 }],
    });
  });

  it('asks for a token with the scope read', async () => {
    const response = await fetch(`${road.url}/api/fleet`);
    expect(response.status).toBe(401);
  });
});

describe('GET /api/fleet/history', () => {
  it('tells what a worker measured, and refuses a question that names two', async () => {
    const queue = newQueue();
    await beat(queue, { instance_id: 'w', status: 'running', tokens_per_second: 7 });
    const ask = (query: string) =>
      fetch(`${road.url}/api/fleet/history?${query}`, { headers: headersOf(queue) });
    const { step_ms, series } = (await (await ask('worker_id=w')).json()) as FleetHistory;
    expect([step_ms, series.tokens_per_second?.includes(7)]).toEqual([10_000, true]);
    const day = (await (await ask('config_id=cfg&range=24h')).json()) as FleetHistory;
    expect([day.step_ms, day.at.length]).toEqual([60_000, 1440]);
    for (const query of ['worker_id=w&config_id=c', 'worker_id=w&range=2d']) {
      expect((await ask(query)).status).toBe(400);
    }
  });
});

describe('a worker that is refused', () => {
  it('is told to those who look at the fleet, also when it is empty', async () => {
    const viewer = await Viewer.open('vllm-queue');
    viewer.say({ type: 'watch' });
    await until(() => viewer.frames().length > 0, 'the first frame');
    expect(viewer.known().summary.verdict).toBe('empty');
    await expect(new RawWorker(road.url, 'wrong').connect()).rejects.toThrow('401');
    await until(() => viewer.known().attention.length > 0, 'it is told');
    expect(viewer.known().attention).toMatchObject([
      { code: 'token_refused', text: 'A worker was refused: its token is not known here.' },
    ]);
  });
});

describe('worker-vllm top', () => {
  const top = async (...options: string[]) => {
    const child = spawn(process.execPath, ['src/cli.ts', 'top', ...options], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const ended = once(child, 'close');
    let printed = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (printed += data));
    return { child, ended, printed: () => printed };
  };

  it('prints the fleet once where there is no terminal', async () => {
    const queue = newQueue();
    await worker(queue, 'vast-17');
    const { ended, printed } = await top('--url', road.url, '--token', TOKEN, '--queue-id', queue);
    expect(await ended).toEqual([0, null]);
    expect(printed()).toMatch(/Serving .*cfg is served: 1 worker ready.*● idle +vast-17 +cfg/s);
  });

  it('prints the frames of the live connection with --json, until it is stopped', async () => {
    const queue = newQueue();
    const { child, ended, printed } = await top(
      '--json',
      '--url',
      road.url,
      '--token',
      TOKEN,
      '--queue-id',
      queue,
    );
    const frames = () =>
      printed()
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as FleetFrame);
    await until(() => frames()[0]?.type === 'full', 'the first frame');
    await worker(queue, 'w');
    await until(
      () => frames().some((frame) => frame.type === 'changed' && frame.workers.length > 0),
      'the worker',
    );
    child.kill('SIGINT');
    expect(await ended).toEqual([0, null]);
  });

  it('says what is wrong: no queue there, or a token that may not look', async () => {
    const nowhere = await top('--url', 'http://127.0.0.1:9');
    expect(await nowhere.ended).toEqual([2, null]);
    expect(nowhere.printed()).toMatch(
      /^The queue at http:\/\/127.0.0.1:9 cannot be reached: .*npx worker-vllm up/,
    );
    const denied = await top('--url', road.url, '--token', 'wrong');
    expect(await denied.ended).toEqual([6, null]);
    expect(denied.printed()).toMatch(
      /^This token is not known here.*\(The queue answered 401\.\).*--scope read/,
    );
  });
});

describe('GET /api/fleet/live', () => {
  it('sends everything first and then what changed, which is the same as asking anew', async () => {
    const queue = newQueue();
    const viewer = await Viewer.open(queue);
    viewer.say({ type: 'watch' });
    await until(() => viewer.frames().length > 0, 'the first frame');
    const connected = await worker(queue, 'w');
    await until(() => viewer.known().workers[0]?.state === 'ready', 'the worker appears');
    await beat(queue, { instance_id: 'w', status: 'running', kv_cache_usage: 0.25 });
    await until(() => viewer.known().workers[0]?.kv_cache_usage === 0.25, 'its heartbeat appears');
    connected.vanish();
    await until(() => viewer.known().workers[0]?.state === 'late', 'it is seen to be gone');
    expect(
      viewer
        .frames()
        .slice(1)
        .every(({ type }) => type === 'changed'),
    ).toBe(true);
    // What the queue reports a moment later may come between the two.
    await until(async () => {
      const { workers, pools, version } = await view(queue);
      expect(viewer.known()).toMatchObject({ workers, pools, version });
      return true;
    }, 'both tell the same');
  });

  it('answers a ping, and refuses what is no frame of a viewer', async () => {
    const viewer = await Viewer.open(newQueue());
    viewer.socket.send('ping');
    await until(() => viewer.texts[0] === 'pong', 'the answer');
    viewer.socket.send('hello');
    await until(() => viewer.closed === 1008, 'it is closed');
  });

  it('sends nothing to a viewer that paused, and then what it has missed', async () => {
    const queue = newQueue();
    await worker(queue, 'w');
    const [paused, watching] = [await Viewer.open(queue), await Viewer.open(queue)];
    for (const viewer of [paused, watching]) viewer.say({ type: 'watch' });
    await until(() => paused.texts.length > 0 && paused.known().workers.length === 1, 'the worker appears');
    paused.say({ type: 'pause' });
    paused.socket.send('ping');
    await until(() => paused.texts.includes('pong'), 'the pause has arrived');
    const before = paused.frames().length;
    await beat(queue, { instance_id: 'w', status: 'running', kv_cache_usage: 0.5 });
    await until(() => watching.known().workers[0]?.kv_cache_usage === 0.5, 'the other sees it');
    expect(paused.frames()).toHaveLength(before);
    const { epoch, version } = paused.known();
    paused.say({ type: 'watch', epoch, version });
    await until(() => paused.known().workers[0]?.kv_cache_usage === 0.5, 'it sees it too');
    expect(paused.frames().at(-1)?.type).toBe('changed');
  });

  it('lets the object sleep while nobody looks, and goes on over the same socket with what the queue tells again', async () => {
    const queue = newQueue();
    await worker(queue, 'w');
    const viewer = await Viewer.open(queue);
    viewer.say({ type: 'watch' });
    await until(() => viewer.texts.length > 0 && viewer.known().workers[0]?.state === 'ready', 'the worker');
    const { epoch } = viewer.known();
    const hasSlept = async () => {
      viewer.say({ type: 'pause' });
      // Workerd ends an object that was idle for ten seconds.
      await new Promise((done) => setTimeout(done, 12_000));
      const { version } = viewer.known();
      viewer.say({ type: 'watch', epoch: viewer.known().epoch, version });
      await new Promise((done) => setTimeout(done, 1000));
      return viewer.known().epoch !== epoch;
    };
    for (let tries = 0; tries < 5 && !(await hasSlept()); tries++);
    expect(viewer.known().epoch).not.toBe(epoch);
    await until(() => viewer.known().workers[0]?.state === 'ready', 'the queue has told of the worker again');
    expect(viewer.known().workers).toMatchObject([{ worker_id: 'w', state: 'ready', slots: 4 }]);
    expect(viewer.closed).toBeNull();
  }, 120_000);
});
