import { existsSync, readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { textOfJson } from './json-files.ts';

/** The options that RunPod's SDK accepts on the command line of a handler. */
export interface RunpodOptions {
  test_input?: string;
  rp_serve_api?: boolean;
  rp_api_host?: string;
  rp_api_port?: string;
  rp_api_concurrency?: string;
  rp_log_level?: string;
}

const TEST_FILE = 'test_input.json';
/** The engine's port in the mode `--rp_serve_api`, where the API may take the usual port of engines. */
const ENGINE_PORT = '8100';

/**
 * Returns the environment of a supervisor in one of the local modes of RunPod's SDK: `--test_input`, `--rp_serve_api`,
 * or a file `test_input.json` if there is no queue.
 */
export function withLocalMode(env: NodeJS.ProcessEnv, options: RunpodOptions): NodeJS.ProcessEnv {
  const { test_input, rp_serve_api, rp_api_host = 'localhost', rp_api_port = '8000' } = options;
  const { rp_api_concurrency, rp_log_level } = options;
  const more = {
    ...(rp_log_level && { RUNPOD_LOG_LEVEL: rp_log_level }),
    ...(rp_api_concurrency && { MAX_CONCURRENCY: rp_api_concurrency }),
  };
  const testInput = test_input ?? (hasQueue(env) || rp_serve_api ? undefined : testFile());
  if (testInput !== undefined) return { ...env, ...more, QUEUE: 'runpod', RUNPOD_TEST_INPUT: testInput };
  if (!rp_serve_api) return { ...env, ...more };
  return {
    ...{ VLLM_PORT: ENGINE_PORT, ...env, ...more },
    QUEUE: 'runpod',
    RUNPOD_SERVE_API: `${isIP(rp_api_host) === 6 ? `[${rp_api_host}]` : rp_api_host}:${rp_api_port}`,
  };
}

function hasQueue({ CASOLA_WS_URL, RUNPOD_WEBHOOK_GET_JOB, QUEUE }: NodeJS.ProcessEnv): boolean {
  return Boolean(CASOLA_WS_URL?.trim() || RUNPOD_WEBHOOK_GET_JOB?.trim() || QUEUE?.trim());
}

function testFile(): string | undefined {
  return existsSync(TEST_FILE) ? textOfJson(readFileSync(TEST_FILE), TEST_FILE) : undefined;
}
