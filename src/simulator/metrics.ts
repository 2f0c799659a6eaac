/**
 * This file writes the metrics page, in Prometheus' text form, with vLLM's names, labels and buckets: those that the
 * worker reads or that people put on dashboards.
 */

const LATENCY_BUCKETS = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
];
const FIRST_TOKEN_BUCKETS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
  2560,
];
const TOKEN_GAP_BUCKETS = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
];
const BATCH_BUCKETS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];

export type FinishReason = 'stop' | 'length' | 'abort' | 'error' | 'repetition';

export interface Gauges {
  running: number;
  waiting: number;
  /** The used share of the KV cache, 0 to 1. */
  kvCacheUsage: number;
}

class Histogram {
  private readonly buckets: readonly number[];
  private readonly counts: number[];
  private sum = 0;
  private count = 0;

  constructor(buckets: readonly number[]) {
    this.buckets = buckets;
    this.counts = buckets.map(() => 0);
  }

  observe(value: number): void {
    const at = this.buckets.findIndex((limit) => value <= limit);
    if (at >= 0) this.counts[at]! += 1;
    this.sum += value;
    this.count += 1;
  }

  lines(name: string, labels: string): string[] {
    let total = 0;
    const buckets = this.buckets.map((limit, at) => {
      total += this.counts[at]!;
      return `${name}_bucket{engine="0",le="${float(limit)}",${labels}} ${float(total)}`;
    });
    return [
      ...buckets,
      `${name}_bucket{engine="0",le="+Inf",${labels}} ${float(this.count)}`,
      `${name}_count{engine="0",${labels}} ${float(this.count)}`,
      `${name}_sum{engine="0",${labels}} ${float(this.sum)}`,
    ];
  }
}

export class Metrics {
  promptTokens = 0;
  generationTokens = 0;
  /** The number of prompt tokens that were computed before. */
  cachedTokens = 0;
  /** The number of prompt tokens whose blocks came from another engine. */
  externalTokens = 0;
  rejections = 0;
  /** The number of finished requests by reason; `abort` stays 0, as in vLLM 0.32.0. */
  readonly finished: Record<FinishReason, number> = { stop: 0, length: 0, abort: 0, error: 0, repetition: 0 };
  readonly timeToFirstToken = new Histogram(FIRST_TOKEN_BUCKETS);
  readonly interTokenLatency = new Histogram(TOKEN_GAP_BUCKETS);
  readonly requestLatency = new Histogram(LATENCY_BUCKETS);
  readonly queueTime = new Histogram(LATENCY_BUCKETS);
  readonly iterationTokens = new Histogram(BATCH_BUCKETS);

  page(model: string, gauges: Gauges): string {
    const labels = `model_name="${model}"`;
    const lines: string[] = [];
    const help = (name: string, type: string, text: string) => {
      lines.push(`# HELP vllm:${name} ${text}`, `# TYPE vllm:${name} ${type}`);
    };
    const single = (name: string, type: string, text: string, value: number) => {
      help(name, type, text);
      lines.push(`vllm:${name}{engine="0",${labels}} ${float(value)}`);
    };
    const histogram = (name: string, text: string, values: Histogram) => {
      help(name, 'histogram', text);
      lines.push(...values.lines(`vllm:${name}`, labels));
    };

    single('num_requests_running', 'gauge', 'Requests being generated.', gauges.running);
    single('num_requests_waiting', 'gauge', 'Requests that wait for a place.', gauges.waiting);
    single('kv_cache_usage_perc', 'gauge', 'KV cache in use, from 0 to 1.', gauges.kvCacheUsage);
    single('prefix_cache_queries_total', 'counter', 'Prompt tokens looked up.', this.promptTokens);
    single('prefix_cache_hits_total', 'counter', 'Prompt tokens found in the cache.', this.cachedTokens);
    single(
      'external_prefix_cache_hits_total',
      'counter',
      'Prompt tokens of other engines.',
      this.externalTokens,
    );
    single('num_preemptions_total', 'counter', 'Requests put back to wait.', 0);
    single('prompt_tokens_total', 'counter', 'Prompt tokens processed.', this.promptTokens);
    single('generation_tokens_total', 'counter', 'Tokens generated.', this.generationTokens);
    help('request_success_total', 'counter', 'Requests finished, by reason.');
    for (const [reason, count] of Object.entries(this.finished)) {
      lines.push(
        `vllm:request_success_total{engine="0",finished_reason="${reason}",${labels}} ${float(count)}`,
      );
    }
    help('admission_rejections_total', 'counter', 'Requests refused by a queue limit, by reason.');
    lines.push(
      `vllm:admission_rejections_total{${labels},reason="max_num_queued_reqs"} ${float(this.rejections)}`,
    );
    histogram('iteration_tokens_total', 'Tokens in one engine step.', this.iterationTokens);
    histogram('time_to_first_token_seconds', 'Seconds to the first token.', this.timeToFirstToken);
    histogram('inter_token_latency_seconds', 'Seconds between tokens.', this.interTokenLatency);
    histogram('e2e_request_latency_seconds', 'Seconds from arrival to end.', this.requestLatency);
    histogram('request_queue_time_seconds', 'Seconds spent waiting for a place.', this.queueTime);
    return `${lines.join('\n')}\n`;
  }
}

/** Formats a number as Python does, always with a point. */
function float(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}
