import type { ApiError } from './errors.ts';
import { logLine } from './log.ts';

export const DIALECTS = ['vllm', 'fastdeploy'] as const;
export type DialectName = (typeof DIALECTS)[number];

/** What differs between the engines that the simulator stands for, beside their flags. */
export interface Dialect {
  /** Of `/health` while a fault makes it unhealthy. */
  unhealthyStatus: number;
  /** Of `/health` after the engine died; null: the server ends with it. */
  deadStatus: number | null;
  /** The metrics page, from vLLM's. */
  metricsPage(page: string): string;
  /** Whether the metrics have a port of their own. */
  hasMetricsPort: boolean;
  load: unknown;
  errorAnswer(error: ApiError): { status: number; body: unknown };
  /** Exit code after a failed start. */
  startFailureCode: number;
  readyLines(url: string): string[];
}

const vllm: Dialect = {
  unhealthyStatus: 503,
  deadStatus: null,
  metricsPage: (page) => page,
  hasMetricsPort: false,
  // vLLM counts here only with --enable-server-load-tracking.
  load: { server_load: 0 },
  errorAnswer: ({ status, body }) => ({ status, body }),
  startFailureCode: 1,
  readyLines: (url) => [logLine('APIServer', 'entry.py:140', `Starting vLLM server on ${url}`)],
};

/** FastDeploy 2.3, after its documentation and source. */
const fastdeploy: Dialect = {
  unhealthyStatus: 404,
  // Its API server outlives its workers.
  deadStatus: 304,
  metricsPage: (page) =>
    page
      .replaceAll('vllm:kv_cache_usage_perc', 'fastdeploy:gpu_cache_usage_perc')
      .replaceAll('vllm:num_preemptions_total', 'fastdeploy:request_preempted_total')
      .replaceAll('vllm:', 'fastdeploy:'),
  hasMetricsPort: true,
  load: {
    routes: ['/v1/chat/completions', '/v1/completions', '/v1/models'].map((path) => ({ path, tags: [] })),
  },
  errorAnswer: (error) => {
    // Its own limit is the number of connections; the caller's faults are its own faults.
    if (error.status === 503) return { status: 429, body: { detail: 'Too many requests' } };
    const { message, type, param } = error;
    return { status: 500, body: { detail: { object: 'error', message, type, param, code: 500 } } };
  },
  startFailureCode: 0,
  readyLines: (url) => [
    `Launching metrics service at ${url}/metrics`,
    `Launching chat completion service at ${url}/v1/chat/completions`,
    `Launching completion service at ${url}/v1/completions`,
  ],
};

export function dialectOf(name: DialectName): Dialect {
  return name === 'fastdeploy' ? fastdeploy : vllm;
}
