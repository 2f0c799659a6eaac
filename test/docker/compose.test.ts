import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { freePort } from '../../src/process/free-port.ts';
import { until } from '../support/poll.ts';
import { type Child, startProcess, stopAllProcesses } from '../support/processes.ts';
import { docker, tried } from './containers.ts';
import { TOKEN } from './road.ts';

const SOURCE = join(import.meta.dirname, '../../deploy/compose.yaml');
const PROJECT = `wvt${process.pid}`;
const folder = mkdtempSync(join(tmpdir(), 'wv-compose-'));
const file = join(folder, 'compose.yaml');
const port = await freePort();

/** The plug-in, or the program that was there before it. */
async function compose(...args: string[]): Promise<Child> {
  const hasPlugIn = (await tried('compose', 'version')).code === 0;
  const [command, ...first] = hasPlugIn ? ['docker', 'compose'] : ['docker-compose'];
  const env = {
    ...process.env,
    // Both images are there already, under these names.
    IMAGE_NAME: 'worker-vllm-test',
    WORKER_TOKEN: TOKEN,
    SUBMIT_TOKEN: `${TOKEN}-of-callers`,
    MODEL: 'tiny',
  };
  return startProcess(command!, [...first, '--file', file, '--project-name', PROJECT, ...args], { env });
}

afterEach(async () => {
  await stopAllProcesses();
  const down = await compose('down', '--volumes', '--timeout', '5');
  await down.exited;
  rmSync(folder, { recursive: true });
});

it('compose.yaml comes up with two workers, answers a request and goes down', async () => {
  // As it is, but for what no machine without GPUs has, a second worker as its comment says, and the port.
  const document = parse(readFileSync(SOURCE, 'utf8'));
  const { worker, queue } = document.services;
  delete worker.deploy;
  worker.environment.ENGINE = 'simulator';
  document.services['worker-2'] = worker;
  expect(queue.ports).toEqual(['127.0.0.1:8788:8788']);
  queue.ports = [`127.0.0.1:${port}:8788`];
  writeFileSync(file, stringify(document, { aliasDuplicateObjects: false }));

  const up = await compose('up', '--no-build', '--detach');
  expect((await up.exited).code, up.output()).toBe(0);
  const url = `http://127.0.0.1:${port}`;
  const callers = { authorization: `Bearer ${TOKEN}-of-callers` };
  await until(
    async () => {
      const health = await fetch(`${url}/health`, { headers: callers });
      return ((await health.json()) as { workers: number; slots: number }).slots === 32;
    },
    'both workers are ready',
    { timeoutMs: 120_000, everyMs: 300 },
  );
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: callers,
    body: JSON.stringify({ model: 'tiny', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 5 }),
  });
  expect(answer.status).toBe(200);
  const of = ['ps', '--all', '--quiet', '--filter', `label=com.docker.compose.project=${PROJECT}`];
  expect((await docker(...of)).split('\n')).toHaveLength(3);

  const stop = await compose('stop');
  expect((await stop.exited).code, stop.output()).toBe(0);
  const ids = (await docker(...of)).split('\n');
  expect(await docker('inspect', '--format', '{{.State.ExitCode}}', ...ids)).toBe('0\n0\n0');
});
