import { readFileSync } from 'node:fs';
import { afterAll, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { cli, stateFolder, tearDown } from '../support/road.ts';

afterAll(tearDown);

/** Names of the programs that a process has started. */
function childrenOf(pid: number): { pid: number; command: string }[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return children
    .split(' ')
    .filter(Boolean)
    .map((child) => ({
      pid: Number(child),
      command: readFileSync(`/proc/${child}/cmdline`, 'utf8').replaceAll('\0', ' '),
    }));
}

it.each(['compile', 'serve'])('a Ctrl-C while workerd is at "%s" ends the queue in order', async (step) => {
  const port = String(await freePort());
  const queue = cli(['queue', '--port', port, '--state', stateFolder()]);
  const workerd = await until(
    () => childrenOf(queue.pid).find(({ command }) => command.includes(` ${step} `)),
    `workerd is at ${step}`,
    { everyMs: 1 },
  );
  // As a terminal does, which the child has not left yet.
  process.kill(workerd.pid, 'SIGINT');
  queue.kill('SIGINT');
  expect(await queue.exited).toEqual({ code: 0, signal: null });
  expect(queue.output()).not.toMatch(/before it was ready|does not take|Error/);
});
