import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { EXIT, UserError } from '../../process/exit-codes.ts';
import type { EndedAttempt, Ports } from '../ports.ts';
import type { Report, WorkerStatus } from './worker-status.ts';

/** The bounds of vLLM's own histogram, so that panels of both overlay, s. */
const FIRST_TOKEN_BUCKETS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
  2560,
];
const ATTEMPT_BUCKETS = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
];
const RESULTS = ['succeeded', 'failed', 'released', 'revoked'] as const;
const STEPS = {
  engine_started_ms: 'engine_started',
  weights_loaded_ms: 'weights_loaded',
  engine_healthy_ms: 'engine_healthy',
  first_job_ms: 'first_job',
} as const;

/** Makes the page of this worker's metrics in Prometheus' text form (0.0.4), with the engine's page after them. */
class MetricsPage {
  readonly #registry = new Registry();
  readonly #attempts = this.#counter('attempts_total', 'Attempts at jobs that left their slot.', ['result']);
  readonly #tokens = this.#counter('tokens_total', 'Tokens that the engine counted in its answers.', [
    'kind',
  ]);
  readonly #missed = this.#counter('missed_renewals_total', 'Lease renewals without an answer in time.', []);
  readonly #prefills = this.#counter(
    'prefills_total',
    'Requests with a long prompt, by whether another engine prefilled it or why not.',
    ['result'],
  );
  readonly #prefilled = this.#counter(
    'prefilled_tokens_total',
    'Tokens of prompts that another engine prefilled.',
    [],
  );
  readonly #ran = this.#histogram('attempt_seconds', 'Time of attempts in the engine.', ATTEMPT_BUCKETS);
  readonly #firstToken = this.#histogram(
    'first_token_seconds',
    'Time from the request to the engine to the first piece of a streamed answer.',
    FIRST_TOKEN_BUCKETS,
  );
  readonly #info = this.#gauge('info', 'Who this worker is; always 1.', [
    ...['worker_id', 'queue_id', 'pool', 'model', 'engine', 'engine_version', 'version'],
  ]);
  readonly #ready = this.#gauge('ready', '1 while it takes jobs.', []);
  readonly #slots = this.#gauge('slots', 'Jobs that it may run at a time, by state.', ['state']);
  readonly #spool = this.#gauge('spool_bytes', 'Results on disk that the queue has not acknowledged.', []);
  readonly #start = this.#gauge(
    'start_seconds',
    'From the creation of the container to a step of its start.',
    ['step'],
  );
  readonly #gpuUsed = this.#gauge('gpu_memory_used_bytes', 'Memory of a GPU in use.', ['gpu', 'name']);
  readonly #gpuTotal = this.#gauge('gpu_memory_total_bytes', 'Memory of a GPU in all.', ['gpu', 'name']);
  readonly #gpuBusy = this.#gauge('gpu_utilization_ratio', 'Share of time in which a GPU worked.', [
    'gpu',
    'name',
  ]);
  readonly #gpuHeat = this.#gauge('gpu_temperature_celsius', 'Temperature of a GPU.', ['gpu', 'name']);
  readonly #gpuPower = this.#gauge('gpu_power_watts', 'Power that a GPU draws.', ['gpu', 'name']);

  constructor() {
    // The counters are zero from the start; otherwise the first count would not show as an increase.
    for (const result of RESULTS) this.#attempts.inc({ result }, 0);
    for (const kind of ['input', 'output']) this.#tokens.inc({ kind }, 0);
  }

  attemptEnded({ result, ranMs, firstTokenMs, usage }: EndedAttempt): void {
    this.#attempts.inc({ result });
    if (ranMs !== null) this.#ran.observe(ranMs / 1000);
    if (firstTokenMs !== null) this.#firstToken.observe(firstTokenMs / 1000);
    this.#tokens.inc({ kind: 'input' }, usage?.prompt_tokens ?? 0);
    this.#tokens.inc({ kind: 'output' }, usage?.completion_tokens ?? 0);
  }

  /** Returns the text of the page. @param enginePage the engine's page; null: it has none */
  async text(report: Report, enginePage: string | null): Promise<string> {
    this.#read(report);
    return joinPages(await this.#families(), enginePage ?? '');
  }

  #read(report: Report): void {
    this.#readWorker(report);
    const gauges = [this.#gpuUsed, this.#gpuTotal, this.#gpuBusy, this.#gpuHeat, this.#gpuPower];
    for (const gauge of gauges) gauge.reset();
    for (const [index, reading] of (report.gpus ?? []).entries()) {
      const gpu = { gpu: String(index), name: reading.name ?? '' };
      set(this.#gpuUsed, gpu, reading.memory_used_bytes);
      set(this.#gpuTotal, gpu, reading.memory_total_bytes);
      set(this.#gpuBusy, gpu, reading.utilization);
      set(this.#gpuHeat, gpu, reading.temperature_celsius);
      set(this.#gpuPower, gpu, reading.power_watts);
    }
  }

  #readWorker(report: Report): void {
    const { running = 0, capacity = 0, start, missed_renewals = 0, spool_bytes, prefills } = report;
    this.#info.reset();
    this.#info.set(
      {
        worker_id: report.worker_id ?? '',
        queue_id: report.queue_id ?? '',
        pool: report.config_id ?? '',
        model: report.model ?? '',
        engine: report.engine ?? '',
        engine_version: report.engine_version ?? '',
        version: report.worker_version ?? '',
      },
      1,
    );
    this.#ready.set(report.status === 'running' ? 1 : 0);
    this.#slots.set({ state: 'busy' }, running);
    this.#slots.set({ state: 'free' }, Math.max(0, capacity - running));
    this.#missed.reset();
    this.#missed.inc(missed_renewals);
    this.#spool.set(spool_bytes ?? 0);
    this.#prefills.reset();
    for (const [result, count] of Object.entries(prefills?.results ?? {}))
      this.#prefills.inc({ result }, count);
    this.#prefilled.reset();
    this.#prefilled.inc(prefills?.tokens ?? 0);
    for (const [field, step] of Object.entries(STEPS) as [keyof typeof STEPS, string][]) {
      const { created_ms, [field]: at } = start ?? {};
      if (created_ms !== undefined && at !== undefined) this.#start.set({ step }, (at - created_ms) / 1000);
    }
  }

  async #families(): Promise<Family[]> {
    const metrics = this.#registry.getMetricsAsArray() as { name: string }[];
    return await Promise.all(
      metrics.map(async ({ name }) => ({ name, text: await this.#registry.getSingleMetricAsString(name) })),
    );
  }

  #counter(name: string, help: string, labelNames: string[]): Counter {
    return new Counter({ name: `worker_vllm_worker_${name}`, help, labelNames, registers: [this.#registry] });
  }

  #gauge(name: string, help: string, labelNames: string[]): Gauge {
    return new Gauge({ name: `worker_vllm_worker_${name}`, help, labelNames, registers: [this.#registry] });
  }

  #histogram(name: string, help: string, buckets: number[]): Histogram {
    return new Histogram({ name: `worker_vllm_worker_${name}`, help, buckets, registers: [this.#registry] });
  }
}

function set(gauge: Gauge, labels: Record<string, string>, value: number | undefined): void {
  if (value !== undefined) gauge.set(labels, value);
}

export interface Family {
  name: string;
  /** The text of the family with its HELP and TYPE. */
  text: string;
}

/** Joins two pages. No family may be in both; one that is, is left out of ours. */
export function joinPages(ours: readonly Family[], theirs: string): string {
  const names = familiesIn(theirs);
  const kept = ours.filter(({ name }) => !names.has(name)).map(({ text }) => `${text.trimEnd()}\n`);
  const page = theirs.replace(/^# EOF\s*$/m, '').trimEnd();
  return kept.join('') + (page === '' ? '' : `${page}\n`);
}

function familiesIn(page: string): Set<string> {
  const names = new Set<string>();
  for (const [, described, sample] of page.matchAll(/^(?:# (?:TYPE|HELP) (\S+)|([a-zA-Z_:][\w:]*))/gm)) {
    names.add((described ?? sample)!);
  }
  return names;
}

/** Returns the body of the worker's own `GET /healthz`, with Dynamo's names for values that Dynamo has too. */
function healthOf(report: Report) {
  const { gpus = [] } = report;
  const reason = reasonOf(report);
  return {
    /** The word is `healthy` while the worker takes jobs. */
    status: reason === null ? 'healthy' : 'unhealthy',
    /** The reason why the worker is unhealthy, for people. */
    ...(reason === null ? {} : { reason }),
    worker_id: report.worker_id,
    config_id: report.config_id,
    model_name: report.model ?? null,
    engine: report.engine ?? null,
    engine_version: report.engine_version ?? null,
    /** The number of running jobs, and of those that may run. */
    running: report.running,
    capacity: report.capacity,
    /** The memory of all the worker's GPUs, bytes; null: not known. */
    gpu_memory_used: sumOf(gpus.map((gpu) => gpu.memory_used_bytes)),
    gpu_memory_total: sumOf(gpus.map((gpu) => gpu.memory_total_bytes)),
    gpus,
  };
}

function reasonOf({ status, phase, progress }: Report): string | null {
  switch (status) {
    case 'running':
      return null;
    case 'draining':
      return 'it drains: it finishes what runs, and ends';
    case 'starting':
      return `it starts: ${phase}${progress === undefined ? '' : `, ${Math.floor(progress * 100)} %`}`;
    case null:
      return 'its engine is not healthy, or it has no connection to the queue; its log says which';
  }
}

function sumOf(values: (number | undefined)[]): number | null {
  const known = values.filter((value) => value !== undefined);
  return known.length === 0 ? null : known.reduce((total, value) => total + value, 0);
}

export interface LocalPort {
  /** Stops listening, and ends requests in progress. */
  close(): void;
}

/**
 * Serves `/metrics` and `/healthz` of one worker. This module loads the metrics library, so it is imported only if the
 * port is wanted.
 * @throws UserError when the port is in use or cannot be opened
 */
export async function openLocalPort(
  { host, port }: { host: string; port: number },
  status: WorkerStatus,
  engine: Ports['engine'],
): Promise<LocalPort> {
  const page = new MetricsPage();
  status.onAttempt = (attempt) => page.attemptEnded(attempt);

  async function metrics(response: ServerResponse): Promise<void> {
    const report = await status.report();
    // A starting engine would answer only after a while.
    const enginePage = report.status === 'starting' ? null : await engine.metricsPage();
    send(response, 200, 'text/plain; version=0.0.4; charset=utf-8', await page.text(report, enginePage));
  }

  async function health(response: ServerResponse): Promise<void> {
    const payload = healthOf(await status.report());
    const code = payload.status === 'healthy' ? 200 : 503;
    send(response, code, 'application/json', `${JSON.stringify(payload)}\n`);
  }

  const routes: Record<string, (response: ServerResponse) => Promise<void>> = {
    '/metrics': metrics,
    '/healthz': health,
  };
  const server = createServer((request, response) => {
    const route = routes[(request.url ?? '').split('?', 1)[0]!];
    if (!route) return send(response, 404, 'text/plain', 'There are /metrics and /healthz here.\n');
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD');
      return send(response, 405, 'text/plain', 'GET, please.\n');
    }
    route(response).catch((error: unknown) => send(response, 500, 'text/plain', `${String(error)}\n`));
  });
  server.listen(port, host);
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') {
      throw new UserError(
        `Port ${port} at ${host} is in use: stop what listens there, or set another WORKER_METRICS_PORT.`,
        EXIT.portInUse,
      );
    }
    throw new UserError(
      `The worker cannot listen on WORKER_METRICS_HOST=${host} WORKER_METRICS_PORT=${port}: ${error.message}.`,
    );
  });
  return {
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function send(response: ServerResponse, status: number, contentType: string, body: string): void {
  response.writeHead(status, { 'content-type': contentType, 'cache-control': 'no-store' }).end(body);
}
