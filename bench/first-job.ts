import { Agent, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { commandLine, wholeFrom } from '../scripts/command-line.ts';
import { ensureVllm, TINY_MODEL_ARGS } from '../scripts/vllm/setup.ts';
import { chatJob, settled, startQueue, startWorker, submit, tearDown } from '../test/support/road.ts';

/**
 * How long a job waits for a worker whose engine has just become healthy. The job lies in the queue before
 * the container (`worker-vllm supervise`) starts; everything runs on this machine, with one clock.
 *
 * From: the first 200 of the engine's /health, asked here over one kept connection 1 ms after each answer.
 * To: the worker sends the job's request to the engine, by the time of its own line (LOG_LEVEL=debug).
 */
const given = commandLine(
  'node bench/first-job.ts',
  'measures how long a job waits for a worker whose engine has just become healthy',
)
  .option('--rounds <count>', 'workers, one after the other', wholeFrom(1), 5)
  .option('--vllm', 'over real vLLM, not the simulator')
  .parse()
  .opts<{ rounds: number; vllm?: true }>();

const LOG = { LOG_LEVEL: 'debug' };
/** Long enough for worker and queue to be connected. */
const SIMULATOR = { engineArgs: '--startup-seconds 5', env: LOG };
const STARTUP_LIMIT_MS = 300_000;

async function main(): Promise<void> {
  const options = given.vllm ? await realEngine() : SIMULATOR;
  const queue = await startQueue();
  const waits: number[] = [];
  for (let n = 1; n <= given.rounds; n++) {
    waits.push(await measure(queue.url, `round-${n}`, options));
    console.log(`round ${n}: ${waits.at(-1)} ms`);
  }
  waits.sort((a, b) => a - b);
  console.log(
    `${given.vllm ? 'vLLM' : 'the simulator'} healthy → first job taken: min ${waits[0]}, ` +
      `median ${waits[Math.floor(waits.length / 2)]}, max ${waits.at(-1)} ms`,
  );
}

async function realEngine(): Promise<NonNullable<Parameters<typeof startWorker>[2]>> {
  const vllm = await ensureVllm();
  return {
    engineArgs: [...TINY_MODEL_ARGS, '--served-model-name', 'tiny'].join(' '),
    env: {
      ...vllm.env,
      ...LOG,
      ENGINE: 'vllm',
      VLLM_MODEL: vllm.modelDir,
      VLLM_SERVE_COMMAND: vllm.vllmCommand,
      VLLM_STARTUP_TIMEOUT: String(STARTUP_LIMIT_MS / 1000),
      GPU_CHECK: 'off',
    },
  };
}

/** One container's start. @returns ms */
async function measure(
  queueUrl: string,
  id: string,
  options: Parameters<typeof startWorker>[2],
): Promise<number> {
  const job = await submit(queueUrl, chatJob(1));
  const worker = await startWorker(queueUrl, id, options);
  const healthyAt = await Promise.race([
    firstHealthy(worker.engineUrl),
    worker.process.exited.then(({ code }) => {
      throw new Error(`the worker ended with ${code}:\n${worker.process.output()}`);
    }),
  ]);
  const line = JSON.parse(await worker.process.waitForLine(/request to the engine/)) as { time: string };
  await settled(queueUrl, job.id);
  await worker.process.stop();
  return Math.round(Date.parse(line.time) - healthyAt);
}

/** When the first 200 had arrived, epoch ms. */
async function firstHealthy(engineUrl: string): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const deadline = performance.now() + STARTUP_LIMIT_MS;
  try {
    while (performance.now() < deadline) {
      const status = await new Promise<number>((resolve) => {
        get(`${engineUrl}/health`, { agent }, (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        }).once('error', () => resolve(0));
      });
      if (status === 200) return performance.timeOrigin + performance.now();
      await sleep(1);
    }
  } finally {
    agent.destroy();
  }
  throw new Error(`the engine was not healthy within ${STARTUP_LIMIT_MS / 1000} s`);
}

try {
  await main();
} finally {
  await tearDown();
}
