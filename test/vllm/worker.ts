import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { TINY_MODEL_VARIABLES, type VllmInstall } from '../../scripts/vllm/setup.ts';
import { until } from '../support/poll.ts';
import { startWorker, untilReady, type WorkerProcess } from '../support/road.ts';

/** A start of vLLM takes 20 s, on a busy machine minutes. Less than the limit of a hook and of a test. */
export const START_SECONDS = 560;
export const START_LIMIT = { timeoutMs: START_SECONDS * 1000 };

/** A server that no worker started. */
export interface Served {
  vllm: VllmInstall;
  url: string;
  /** All that it has logged. */
  output(): string;
}

/** Runs a script of `scripts/vllm` that writes a model or an adapter. */
export function make({ python }: VllmInstall, script: string, ...args: string[]): void {
  const path = join(import.meta.dirname, '../../scripts/vllm', script);
  const made = spawnSync(python, [path, ...args], { encoding: 'utf8' });
  if (made.status !== 0) throw new Error(made.stderr);
}

/**
 * A worker over vLLM that takes jobs of a tiny model.
 * @param model its directory
 * @param name of the worker, and of the model that it serves
 */
export async function startOverVllm(
  vllm: VllmInstall,
  queueUrl: string,
  { model, name, env }: { model: string; name: string; env: Record<string, string> },
): Promise<WorkerProcess> {
  const worker = await startWorker(queueUrl, name, {
    env: {
      ...vllm.env,
      ENGINE: 'vllm',
      VLLM_MODEL: model,
      ...TINY_MODEL_VARIABLES,
      SERVED_MODEL_NAME: name,
      VLLM_SERVE_COMMAND: vllm.vllmCommand,
      VLLM_STARTUP_TIMEOUT: String(START_SECONDS),
      ...env,
    },
  });
  await until(
    async () => worker.process.output().includes('taking jobs') && (await untilReady(queueUrl, name)),
    'the worker takes jobs',
    START_LIMIT,
  );
  return worker;
}
