import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { expect, it } from 'vitest';

/** Prints ports until its stdin ends. */
const PROGRAM = `
  import { freePort } from '${new URL('../../support/ports.ts', import.meta.url).href}';
  const ports = [];
  for (let n = 0; n < 30; n++) ports.push(await freePort());
  console.log(ports.join());
  process.stdin.resume();
`;

/** The ports of a process, which lives on until `end`. */
async function start() {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const [line] = await once(createInterface(child.stdout), 'line');
  const end = async () => {
    child.stdin.end();
    await exited;
  };
  return { ports: String(line).split(',').map(Number), end };
}

it('processes that run side by side choose ports from ranges of their own', async () => {
  const processes = await Promise.all([start(), start(), start()]);
  const ranges = processes
    .map(({ ports }) => ({ least: Math.min(...ports), most: Math.max(...ports) }))
    .sort((one, other) => one.least - other.least);
  for (const [n, { most }] of ranges.slice(0, -1).entries()) expect(most).toBeLessThan(ranges[n + 1]!.least);
  for (const { ports } of processes) expect(new Set(ports).size).toBe(ports.length);
  for (const { end } of processes) await end();
});
