import { ensureVllm, TINY_MODEL_ARGS, type VllmInstall } from '../scripts/vllm/setup.ts';
import { until } from '../test/support/poll.ts';
import { startQueue, startWorker, untilReady } from '../test/support/road.ts';

/** A CPU that is busy with others takes minutes to load a model, ms. */
const STARTUP_LIMIT_MS = 300_000;

/** One queue and one worker with real vLLM on the CPU as its engine. */
export interface RealRoad {
  vllm: VllmInstall;
  queueUrl: string;
  engineUrl: string;
}

/** @param modelShape values of the model's config.json that replace those of the tiny model */
export async function startRealRoad(slots: number, modelShape: object = {}): Promise<RealRoad> {
  const vllm = await ensureVllm();
  const queue = await startQueue();
  const worker = await startWorker(queue.url, 'real', {
    engineArgs: [...TINY_MODEL_ARGS, '--served-model-name', 'tiny'].join(' '),
    env: {
      ...vllm.env,
      ENGINE: 'vllm',
      VLLM_MODEL: vllm.modelDir,
      VLLM_SERVE_COMMAND: vllm.vllmCommand,
      VLLM_STARTUP_TIMEOUT: String(STARTUP_LIMIT_MS / 1000),
      CASOLA_MAX_JOBS: String(slots),
      HF_OVERRIDES: JSON.stringify(modelShape),
    },
  });
  await until(
    async () => worker.process.output().includes('taking jobs') && (await untilReady(queue.url, 'real')),
    'the worker takes jobs',
    { timeoutMs: STARTUP_LIMIT_MS },
  );
  return { vllm, queueUrl: queue.url, engineUrl: worker.engineUrl };
}
