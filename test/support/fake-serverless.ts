import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { bodyOf } from './request-body.ts';

/** A job as the fake platform knows it. */
export interface PlatformJob {
  id: string;
  given: Record<string, unknown>;
  status: 'IN_QUEUE' | 'IN_PROGRESS' | 'COMPLETED' | 'FAILED';
  /** Times that it was given to a worker. */
  gives: number;
  /** Outputs as they were streamed. */
  stream: unknown[];
  progress: unknown[];
  output?: unknown;
  error?: unknown;
  stopPod?: boolean;
  /** The time at which a worker last named the job as its own. */
  namedAtMs?: number;
}

export interface PlatformRequest {
  route: 'take' | 'stop' | 'stream' | 'done' | 'ping';
  path: string;
  query: URLSearchParams;
  headers: IncomingMessage['headers'];
  jobId?: string;
  body?: Record<string, unknown>;
  atMs: number;
}

/** What befalls one request: a status in place of the answer; the connection closed before or after it took effect. */
type Fault = number | 'close' | 'lose answer' | undefined;

export interface FakeServerlessOptions {
  /** A take without a job is held for this many ms; 0: it is answered 204 at once. */
  holdMs?: number;
  /** A job that no ping has named for so long is given out again. What RunPod does is not public. */
  lostAfterMs?: number;
  /** Addresses without the query that the real ones have. */
  bare?: boolean;
}

/** RunPod's SDK loses a result whose kept connection is closed just when it is posted, ms. */
const KEEP_ALIVE_MS = 600_000;
const KEY = 'rpa_secret-of-the-test';
const WORKER = 'pod123';

/**
 * RunPod's side of a serverless endpoint, as far as its SDK shows it (docs/runpod.md). It holds takes, forgets what it
 * gave to a connection that is gone, and names what no worker may do in `violations`.
 */
export class FakeServerless {
  readonly jobs = new Map<string, PlatformJob>();
  readonly requests: PlatformRequest[] = [];
  readonly violations: string[] = [];
  /** Chosen for each request in turn; undefined: it is served. */
  fault: (request: PlatformRequest) => Fault = () => undefined;
  /** Returns the delay of each request, ms. */
  delayMs: (request: PlatformRequest) => number = () => 0;
  readonly #options: FakeServerlessOptions;
  readonly #server: Server;
  readonly #waitingTakes = new Set<() => void>();
  readonly #waitingStops = new Set<() => void>();
  readonly #toStop: string[] = [];
  #watch: NodeJS.Timeout | undefined;

  constructor(options: FakeServerlessOptions = {}) {
    this.#options = options;
    this.#server = createServer((request, response) => void this.#serve(request, response));
    this.#server.keepAliveTimeout = KEEP_ALIVE_MS;
  }

  /** The variables of a worker in this endpoint. */
  async listen(): Promise<Record<string, string>> {
    await new Promise<void>((done) => this.#server.listen(0, '127.0.0.1', done));
    const { lostAfterMs } = this.#options;
    if (lostAfterMs !== undefined) this.#watch = setInterval(() => this.#takeBack(lostAfterMs), 100);
    return this.environment();
  }

  environment(): Record<string, string> {
    const base = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v2/endpoint1`;
    const query = this.#options.bare ? '' : '?gpu=NVIDIA+H200';
    return {
      RUNPOD_WEBHOOK_GET_JOB: `${base}/job-take/$ID${query}`,
      RUNPOD_WEBHOOK_POST_OUTPUT: `${base}/job-done/$RUNPOD_POD_ID/$ID${query}`,
      RUNPOD_WEBHOOK_POST_STREAM: `${base}/job-stream/$RUNPOD_POD_ID/$ID${query}`,
      RUNPOD_WEBHOOK_PING: `${base}/ping/$RUNPOD_POD_ID${query}`,
      RUNPOD_PING_INTERVAL: '1000',
      RUNPOD_AI_API_KEY: KEY,
      RUNPOD_POD_ID: WORKER,
      RUNPOD_ENDPOINT_ID: 'endpoint1',
    };
  }

  submit(id: string, input: unknown, more: Record<string, unknown> = {}): PlatformJob {
    return this.give({ id, input, ...more });
  }

  /** The same with whatever fields a job has, or lacks. */
  give(given: Record<string, unknown>): PlatformJob {
    const id = String(given.id ?? 'without-id');
    const job: PlatformJob = { id, given, status: 'IN_QUEUE', gives: 0, stream: [], progress: [] };
    this.jobs.set(id, job);
    this.#wakeTakes();
    return job;
  }

  /** A request for it has been cancelled, or has expired. */
  stop(...ids: string[]): void {
    this.#toStop.push(...ids);
    for (const wake of [...this.#waitingStops]) wake();
  }

  of(route: PlatformRequest['route'], jobId?: string): PlatformRequest[] {
    return this.requests.filter((one) => one.route === route && (jobId === undefined || one.jobId === jobId));
  }

  isOver(...ids: string[]): boolean {
    return ids.every((id) => ['COMPLETED', 'FAILED'].includes(this.jobs.get(id)!.status));
  }

  /** Drops the open connections, as after a worker's sleep. */
  dropConnections(): void {
    this.#server.closeAllConnections();
  }

  close(): void {
    clearInterval(this.#watch);
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = await readRequest(incoming);
    if (request === null) return;
    this.requests.push(request);
    this.#check(request);
    const fault = this.fault(request);
    const delayMs = this.delayMs(request);
    if (delayMs > 0) await sleep(delayMs, undefined, { ref: false });
    if (fault === 'close') return void incoming.socket.destroy();
    if (typeof fault === 'number') return reply(response, fault);
    const answer = await this.#answer(request, incoming);
    if (fault === 'lose answer') return void incoming.socket.destroy();
    reply(response, ...answer);
  }

  /** @returns status and body */
  async #answer(request: PlatformRequest, incoming: IncomingMessage): Promise<[number, unknown?]> {
    switch (request.route) {
      case 'take':
        return await this.#take(request, incoming);
      case 'stop':
        return await this.#stops(incoming);
      case 'ping':
        this.#named(request.query.get('job_id')?.split(',') ?? []);
        return [200, {}];
      default:
        return this.#post(request);
    }
  }

  async #take(request: PlatformRequest, incoming: IncomingMessage): Promise<[number, unknown?]> {
    const wanted = Number(request.query.get('batch_size') ?? 1);
    if (!this.#hasQueued() && this.#options.holdMs !== 0) {
      await this.#wait(this.#waitingTakes, this.#options.holdMs ?? 25_000, incoming);
    }
    const isBatch = request.path.includes('/job-take-batch/');
    const queued = [...this.jobs.values()].filter(({ status }) => status === 'IN_QUEUE').slice(0, wanted);
    if (queued.length === 0) return [204];
    for (const job of queued) {
      job.status = 'IN_PROGRESS';
      job.gives += 1;
    }
    this.#named(queued.map(({ id }) => id));
    const given = queued.map((job) => job.given);
    return [200, isBatch ? given : given[0]];
  }

  async #stops(incoming: IncomingMessage): Promise<[number, unknown?]> {
    if (this.#toStop.length === 0) await this.#wait(this.#waitingStops, 25_000, incoming);
    return this.#toStop.length === 0 ? [204] : [200, { jobsToStop: this.#toStop.splice(0) }];
  }

  #post({ route, jobId, body = {} }: PlatformRequest): [number, unknown?] {
    const job = this.jobs.get(jobId ?? '');
    if (!job) return [400, 'no such job'];
    if (this.isOver(job.id)) {
      if (route === 'stream') this.violations.push(`${jobId}: a piece after the end`);
      return [400, 'the job is over'];
    }
    if (route === 'stream') job.stream.push(body.output);
    else if (body.status === 'IN_PROGRESS') job.progress.push(body.output);
    else Object.assign(job, body, { status: body.error === undefined ? 'COMPLETED' : 'FAILED' });
    return [200, {}];
  }

  /** Waits until there is something, the time is over or the caller is gone. */
  #wait(waiting: Set<() => void>, ms: number, incoming: IncomingMessage): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        waiting.delete(done);
        incoming.socket.off('close', done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      waiting.add(done);
      incoming.socket.once('close', done);
    });
  }

  #hasQueued(): boolean {
    return [...this.jobs.values()].some(({ status }) => status === 'IN_QUEUE');
  }

  #wakeTakes(): void {
    for (const wake of [...this.#waitingTakes]) wake();
  }

  #named(ids: string[]): void {
    for (const id of ids) Object.assign(this.jobs.get(id) ?? {}, { namedAtMs: performance.now() });
  }

  #takeBack(lostAfterMs: number): void {
    const lost = [...this.jobs.values()].filter(
      ({ status, namedAtMs = 0 }) => status === 'IN_PROGRESS' && performance.now() - namedAtMs > lostAfterMs,
    );
    for (const job of lost) Object.assign(job, { status: 'IN_QUEUE', stream: [] });
    if (lost.length > 0) this.#wakeTakes();
  }

  #check({ route, path, headers, jobId, query, body }: PlatformRequest): void {
    const says = (problem: string) => this.violations.push(`${route} ${path}: ${problem}`);
    if (headers.authorization !== KEY) says(`authorization is ${headers.authorization}`);
    if (!path.includes(`/${WORKER}`)) says('the worker is not named');
    if (route !== 'stream' && route !== 'done') return;
    if (headers['x-request-id'] !== jobId) says(`x-request-id is ${headers['x-request-id']}`);
    if (body === undefined) says('the body is no JSON');
    if (headers.charset !== 'utf-8') says('no charset');
    if (headers['content-type'] !== 'application/x-www-form-urlencoded') says('content type');
    if (query.get('isStream') === null) says('isStream is missing');
  }
}

const ROUTES = {
  'job-take': 'take',
  'job-take-batch': 'take',
  'job-stop': 'stop',
  'job-stream': 'stream',
  'job-done': 'done',
  ping: 'ping',
} as const;

async function readRequest(incoming: IncomingMessage): Promise<PlatformRequest | null> {
  const text = await bodyOf(incoming);
  if (text === null) return null;
  const { pathname, searchParams } = new URL(incoming.url ?? '', 'http://platform');
  const [, , , name = '', , jobId] = pathname.split('/');
  const route = ROUTES[name as keyof typeof ROUTES];
  if (route === undefined) throw new Error(`no route ${pathname}`);
  return {
    route,
    path: pathname,
    query: searchParams,
    headers: incoming.headers,
    ...(jobId !== undefined && { jobId: decodeURIComponent(jobId) }),
    ...(text !== '' && { body: JSON.parse(text) }),
    atMs: performance.now(),
  };
}

function reply(response: ServerResponse, status: number, body?: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(body === undefined ? undefined : JSON.stringify(body));
}
