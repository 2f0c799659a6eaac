import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { until } from '../../test/support/poll.ts';
import { freePort } from '../../test/support/ports.ts';
import { cleanEnvironment, cli, stateFolder, tearDown } from '../../test/support/road.ts';
import type { Effort } from '../effort.ts';
import type { Figure } from '../report.ts';

const WORKER = fileURLToPath(new URL('../../dist/programs/worker.js', import.meta.url));

/** P7: from the command to the first token, with the simulator, and from a worker's start to its dial. */
export async function start({ rounds }: Effort): Promise<Figure[]> {
  const toToken: number[] = [];
  const toDial: number[] = [];
  for (let round = 0; round < rounds; round++) {
    toToken.push(await untilFirstToken());
    toDial.push(await untilDial());
  }
  const shared = { group: 'P7', unit: 's' };
  return [
    { ...shared, name: 'npm start to the first token', goal: 3, rounds: toToken },
    { ...shared, name: 'start of the worker to its dial', goal: 0.4, rounds: toDial },
  ];
}

async function untilFirstToken(): Promise<number> {
  const port = await freePort();
  const began = performance.now();
  cli(['up', '--port', String(port), '--state', stateFolder()], { ENGINE: 'simulator' });
  const url = `http://127.0.0.1:${port}`;
  await until(() => runFirst(url), 'the first token', { everyMs: 50 });
  const seconds = (performance.now() - began) / 1000;
  await tearDown();
  return seconds;
}

/** The worker alone; what it dials notes when it is asked to upgrade, and closes. */
async function untilDial(): Promise<number> {
  const queue = createServer().listen(0, '127.0.0.1');
  await once(queue, 'listening');
  const { port } = queue.address() as AddressInfo;
  const dialled = once(queue, 'upgrade');
  const began = performance.now();
  const worker = spawn(process.execPath, [WORKER], {
    env: cleanEnvironment({
      ENGINE_URL: 'http://127.0.0.1:1',
      CASOLA_WS_URL: `ws://127.0.0.1:${port}`,
      CASOLA_CONFIG_ID: 'bench',
    }),
    stdio: 'ignore',
  });
  const [, socket] = await dialled;
  const seconds = (performance.now() - began) / 1000;
  worker.kill('SIGKILL');
  socket.destroy();
  queue.close();
  return seconds;
}

async function runFirst(url: string): Promise<boolean> {
  const response = await fetch(`${url}/v1/models`);
  const { data } = (await response.json()) as { data: { id: string }[] };
  if (data.length === 0) return false;
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'default',
      stream: true,
      max_tokens: 1,
      messages: [{ role: 'user', content: 'Go.' }],
    }),
  });
  return (await answer.text()).includes('[DONE]');
}
