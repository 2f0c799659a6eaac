import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { EndedAttempt } from '../ports.ts';
import type { Report } from './worker-status.ts';

/** The buckets of vLLM's own histogram, so that panels of both overlay, s. */
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

/** The page of this worker's metrics in Prometheus' text form (0.0.4), with the engine's page after them. */
export class MetricsPage {
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
    // The counters are zero from the start: otherwise the first count would show as no increase.
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

/** Joins two pages, which may be joined only where no family is in both: ours gives way. */
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
