import type { ApiError } from './errors.ts';

/** The outputs of the log: vLLM writes its log to stdout, tracebacks and uvicorn's lines to stderr. */
export interface LogSink {
  out(line: string): void;
  err(line: string): void;
}

export const silent: LogSink = { out() {}, err() {} };

/** The name of one of vLLM's processes; the simulator is all of them. */
type Source = 'APIServer' | 'EngineCore' | 'Worker';

/** Formats a line: `(APIServer pid=1) INFO 11-21 09:08:51 [file.py:1] text`. */
export function logLine(source: Source, place: string, text: string, level = 'INFO'): string {
  const now = new Date();
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${two(now.getMonth() + 1)}-${two(now.getDate())}`;
  const time = `${two(now.getHours())}:${two(now.getMinutes())}:${two(now.getSeconds())}`;
  return `(${source} pid=${process.pid}) ${level} ${day} ${time} [${place}] ${text}`;
}

export const DIALECTS = ['vllm', 'sglang', 'fastdeploy'] as const;
export type DialectName = (typeof DIALECTS)[number];

/** The differences between the engines that the simulator stands for, beside their flags. */
export interface Dialect {
  /** The status of `/health` while a fault makes the engine unhealthy. */
  unhealthyStatus: number;
  /** The status of `/health` after the engine died; null: the server ends with the engine. */
  deadStatus: number | null;
  /** Turns vLLM's metrics page into this engine's. */
  metricsPage(page: string): string;
  /** Whether the metrics have a port of their own. */
  hasMetricsPort: boolean;
  load: unknown;
  errorAnswer(error: ApiError): { status: number; body: unknown };
  /** The exit code after a failed start. */
  startFailureCode: number;
  readyLines(url: string): string[];
}

const vllm: Dialect = {
  unhealthyStatus: 503,
  deadStatus: null,
  metricsPage: (page) => page,
  hasMetricsPort: false,
  // vLLM counts the load only with --enable-server-load-tracking.
  load: { server_load: 0 },
  errorAnswer: ({ status, body }) => ({ status, body }),
  startFailureCode: 1,
  readyLines: (url) => [logLine('APIServer', 'entry.py:140', `Starting vLLM server on ${url}`)],
};

/** FastDeploy 2.3, after its documentation and source. */
const fastdeploy: Dialect = {
  unhealthyStatus: 404,
  // FastDeploy's API server outlives its workers.
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
    // FastDeploy's limit is the number of connections, and it answers callers' faults as its own.
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

/** SGLang 0.5.23, after its source. */
const sglang: Dialect = {
  ...vllm,
  metricsPage: (page) =>
    page
      .replaceAll('vllm:num_requests_running', 'sglang:num_running_reqs')
      .replaceAll('vllm:num_requests_waiting', 'sglang:num_queue_reqs')
      .replaceAll('vllm:kv_cache_usage_perc', 'sglang:token_usage')
      .replaceAll('vllm:num_preemptions_total', 'sglang:num_retracted_requests_total')
      .replaceAll('vllm:iteration_tokens_total_sum', 'sglang:realtime_tokens_total')
      .replaceAll('vllm:', 'sglang:'),
  errorAnswer: ({ status, message, type, param }) => ({
    status,
    body: { object: 'error', message, type, param, code: status },
  }),
  readyLines: () => [sglangLine('The server is fired up and ready to roll!')],
};

/** Formats a line: `[2026-11-28 09:08:51] text`. */
function sglangLine(text: string): string {
  return `[${new Date().toISOString().slice(0, 19).replace('T', ' ')}] ${text}`;
}

const BY_NAME: Record<DialectName, Dialect> = { vllm, sglang, fastdeploy };

export function dialectOf(name: DialectName): Dialect {
  return BY_NAME[name];
}
