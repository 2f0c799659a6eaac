import { ensureLlama } from '../../scripts/engines/setup.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Child, startProcess } from '../support/processes.ts';
import { cli, untilReady } from '../support/road.ts';

/** llama.cpp's own server with the tiny model, started as its users do it: by itself. */
export interface Llama {
  process: Child;
  url: string;
  port: number;
}

/** Requests that it runs side by side. */
export const SLOTS = 2;

/** @param flags further flags of `llama-server`; @param again the port of an earlier one */
export async function startLlama(flags: string[] = [], again?: number): Promise<Llama> {
  const { server, model } = await ensureLlama();
  const port = again ?? (await freePort());
  const own = ['--model', model, '--port', String(port), '--parallel', String(SLOTS), '--ctx-size', '65536'];
  const quick = ['--threads', '1', '--no-warmup'];
  const name = flags.includes('--alias') ? [] : ['--alias', 'tiny'];
  const process = startProcess(server, [...own, ...quick, ...name, ...flags], { name: 'llama.cpp' });
  await process.waitForLine(/listening on http/);
  return { process, port, url: `http://127.0.0.1:${port}` };
}

/** How many requests llama.cpp at an address runs, as it says itself. */
export async function slotsInUse(url: string): Promise<number> {
  const slots = (await (await fetch(`${url}/slots`)).json()) as { is_processing: boolean }[];
  return slots.filter((slot) => slot.is_processing).length;
}

export async function untilBusy(llama: Llama): Promise<void> {
  await until(async () => (await slotsInUse(llama.url)) === 1, 'it runs one');
}

/**
 * Seldom asked: llama.cpp looks for hang-ups of answers in one piece when it has answered nothing at all for a second.
 */
export async function untilIdle(llama: Llama): Promise<void> {
  await until(async () => (await slotsInUse(llama.url)) === 0, 'it runs nothing', { everyMs: 3000 });
}

/** `worker-vllm supervise` beside an engine that runs already; not waited for. */
export function startWorkerFor(
  queueUrl: string,
  engineUrl: string,
  id: string,
  more: NodeJS.ProcessEnv = {},
): Child {
  return cli(
    ['supervise'],
    {
      ENGINE_URL: engineUrl,
      CASOLA_WS_URL: queueUrl.replace(/^http/, 'ws'),
      CASOLA_API_URL: queueUrl,
      CASOLA_CONFIG_ID: 'cfg',
      CASOLA_INSTANCE_ID: id,
      CASOLA_MAX_JOBS: 'auto',
      ...more,
    },
    `worker ${id}`,
  );
}

/** The same, ready. */
export async function workerFor(
  queueUrl: string,
  engine: Llama,
  id: string,
  more: NodeJS.ProcessEnv = {},
): Promise<Child> {
  const process = startWorkerFor(queueUrl, engine.url, id, more);
  await untilReady(queueUrl, id);
  return process;
}
