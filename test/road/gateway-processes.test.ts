import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { childrenOf, commandLine } from '../soak/proc.ts';
import { isAlive, processOf } from '../support/gateways.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import type { Child } from '../support/processes.ts';
import { cli, readyWorker, startQueue, stateFolder, tearDown } from '../support/road.ts';

/** The processes of `queue --gateways`, as their operator sees them. */
afterAll(tearDown);

const start = () => startQueue({ env: { QUEUE_GATEWAYS: '2' } });

it('are started again when they end, and say so', async () => {
  const queue = await start();
  for (const name of ['owner', 'gateway-1', 'gateway-2']) {
    const pid = await processOf(queue, name);
    process.kill(pid, 'SIGKILL');
    await queue.process.waitForLine(new RegExp(`${name} \\(process ${pid}\\) ended by SIGKILL`));
    await processOf(queue, name, pid);
  }
  await until(async () => (await fetch(`${queue.url}/health`)).ok, 'it serves');
});

it('end with a signal, all of them, with exit code 0', async () => {
  const queue = await start();
  await endsWithAll(queue.process, 3);
});

it('end when the process that keeps them is killed', async () => {
  const queue = await start();
  const children = childrenOf(queue.process.pid);
  queue.process.kill('SIGKILL');
  await until(() => !children.some(isAlive), 'nothing is left');
});

it('refuse a port that is in use, by another queue whose gateways share it too', async () => {
  const queue = await start();
  const second = cli(['queue', '--gateways', '1', '--port', String(queue.port), '--state', stateFolder()]);
  expect((await second.exited).code).toBe(EXIT.portInUse);
  expect(second.output()).toMatch(/Port \d+ on 127.0.0.1 is in use/);
});

it('refuse a state that cannot be used, with its exit code', async () => {
  const state = stateFolder();
  writeFileSync(join(state, 'data'), 'no folder');
  const refused = cli(['queue', '--gateways', '1', '--port', String(await freePort()), '--state', state]);
  expect((await refused.exited).code).toBe(EXIT.configuration);
  expect(refused.output()).toMatch(/Cannot write to the state folder/);
});

it('end with the owner, whose state folder is gone', async () => {
  const queue = await start();
  const { rename } = await import('node:fs/promises');
  await rename(queue.stateDir, `${queue.stateDir}-moved`);
  expect((await queue.process.exited).code).toBe(EXIT.unexpected);
  expect(queue.process.output()).toMatch(/the queue ends: the state folder \S+ was removed or replaced/);
});

it('name themselves in the log', async () => {
  const queue = await start();
  const names = () =>
    queue.process
      .output()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => (JSON.parse(line) as { name: string }).name);
  await readyWorker(queue.url, 'named');
  await until(
    () => ['queue', 'owner', 'gateway-1', 'gateway-2'].every((name) => names().includes(name)),
    'all do',
  );
});

it('are started by worker-vllm up too, and end with it', async () => {
  const port = await freePort();
  const up = cli(['up', '--gateways', '2', '--port', String(port), '--state', stateFolder()]);
  await up.waitForLine(/curl/);
  const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ messages: [{ role: 'user', content: 'x' }], max_tokens: 3 }),
  });
  expect(answer.status).toBe(200);
  await endsWithAll(up, 3);
});

/**
 * Ends a process with SIGTERM and asserts that its children, at least so many of ours, have ended before it. Its
 * watchdog ends a moment after it, since a pipe that closes with the process tells it so.
 */
async function endsWithAll(parent: Child, atLeast: number): Promise<void> {
  const children = childrenOf(parent.pid);
  const ours = children.filter((pid) => !commandLine(pid).startsWith('/bin/sh'));
  expect(ours.length).toBeGreaterThanOrEqual(atLeast);
  parent.kill('SIGTERM');
  expect((await parent.exited).code).toBe(EXIT.ok);
  expect(ours.filter(isAlive)).toEqual([]);
  await until(() => !children.some(isAlive), 'nothing is left');
}
