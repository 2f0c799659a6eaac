import { Agent, request } from 'undici';
import WebSocket from 'ws';
import { unpack } from '../../src/protocol/index.ts';
import { startQueue, tearDown } from '../../test/support/road.ts';
import { type Effort, scaled } from '../effort.ts';
import type { Figure } from '../report.ts';
import { median } from '../statistics.ts';

const SAMPLES = 200;
const PENDING = 100_000;
const WORKERS = 1000;
const CALLERS = 1000;
/** Jobs of one submission. */
const BATCH = 1000;
const PING_MS = 10_000;

/** P6: from a submission to the frame at the worker, with much else waiting against nothing else, in turns. */
export async function dispatchLatency(effort: Effort): Promise<Figure[]> {
  const pending = await compare(effort, (url) => fillBacklog(url, scaled(PENDING, effort)));
  const crowd = await compare(effort, (url) =>
    crowdQueue(url, scaled(WORKERS, effort), scaled(CALLERS, effort)),
  );
  const shared = { group: 'P6', unit: '×' };
  return [
    {
      ...shared,
      name: 'dispatch latency, 100,000 pending of another pool ÷ none',
      goal: 1.2,
      rounds: pending,
    },
    {
      ...shared,
      name: 'dispatch latency, 1,000 workers and 1,000 callers ÷ 1 and 0',
      goal: 1.5,
      rounds: crowd,
    },
  ];
}

/** Two queues side by side, one of them prepared: how much longer it takes there, in each round. */
async function compare(effort: Effort, prepare: (url: string) => Promise<void>): Promise<number[]> {
  const quiet = await Probe.start();
  const loaded = await Probe.start();
  await prepare(loaded.url);
  const ratios: number[] = [];
  for (let round = 0; round < effort.rounds; round++) {
    const times = { quiet: [] as number[], loaded: [] as number[] };
    for (let sample = 0; sample < scaled(SAMPLES, effort); sample++) {
      times.quiet.push(await quiet.latency());
      times.loaded.push(await loaded.latency());
    }
    ratios.push(median(times.loaded) / median(times.quiet));
  }
  await tearDown();
  return ratios;
}

/** A queue with one worker that notes when a job arrives, and settles it. */
class Probe {
  readonly url: string;
  readonly #arrived = new Map<string, (at: number) => void>();

  private constructor(url: string) {
    this.url = url;
  }

  static async start(): Promise<Probe> {
    const probe = new Probe((await startQueue()).url);
    await connect(probe.url, 'measured', 'measured', 1, ({ job_id, fence_token }, socket) => {
      probe.#arrived.get(job_id)?.(performance.now());
      socket.send(JSON.stringify({ type: 'job_result', job_id, fence_token, result: { status: 'success' } }));
    });
    return probe;
  }

  /** From a submission to its frame, ms. */
  async latency(): Promise<number> {
    const id = crypto.randomUUID();
    const frame = new Promise<number>((resolve) => this.#arrived.set(id, resolve));
    const began = performance.now();
    await submit(this.url, [{ id, config_id: 'measured' }]);
    const at = await frame;
    this.#arrived.delete(id);
    return at - began;
  }
}

async function fillBacklog(url: string, jobs: number): Promise<void> {
  for (let from = 0; from < jobs; from += BATCH) {
    await submit(
      url,
      Array.from({ length: BATCH }, () => ({ config_id: 'backlog' })),
    );
  }
}

/** Every worker runs one request, and as many callers wait behind. */
async function crowdQueue(url: string, workers: number, callers: number): Promise<void> {
  for (let n = 0; n < workers; n++) await connect(url, `crowd-${n}`, 'crowd', 1, () => {});
  const agent = new Agent({ connections: null, headersTimeout: 0 });
  for (let n = 0; n < workers + callers; n++) {
    const body = JSON.stringify({ model: 'crowd', messages: [] });
    // Ends with the queue.
    void request(`${url}/v1/chat/completions`, { method: 'POST', body, dispatcher: agent }).catch(() => {});
  }
  for (;;) {
    const { running } = (await (await fetch(`${url}/health`)).json()) as { running: number };
    if (running >= workers) return;
  }
}

async function submit(url: string, jobs: { id?: string; config_id: string }[]): Promise<void> {
  const bodies = jobs.map((job) => ({ ...job, job_type: 'chat_completion', payload: { messages: [] } }));
  const response = await fetch(`${url}/api/jobs`, { method: 'POST', body: JSON.stringify(bodies) });
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`a submission was answered ${response.status}`);
}

type JobFrame = { type: string; job_id: string; fence_token: number };

function connect(
  url: string,
  id: string,
  model: string,
  capacity: number,
  onJob: (frame: JobFrame, socket: WebSocket) => void,
): Promise<WebSocket> {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/ws?queue_id=vllm-queue`);
  const ping = setInterval(() => socket.send('{"type":"ping"}'), PING_MS);
  socket.on('close', () => clearInterval(ping));
  socket.on('error', () => {});
  return new Promise((resolve) => {
    socket.on('open', () => {
      const instance = { id, models: [model], boot_id: id };
      const extended = { protocol: 1, instance };
      socket.send(
        JSON.stringify({ type: 'register', worker_id: id, config_id: model, capacity, ...extended }),
      );
    });
    socket.on('message', (data) => {
      // A body may come beside the frame.
      const text = unpack(data as Buffer)?.head ?? String(data);
      for (const frame of [JSON.parse(text)].flat() as JobFrame[]) {
        if (frame.type === 'registered') resolve(socket);
        if (frame.type === 'job') onJob(frame, socket);
      }
    });
  });
}
