import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { BenchRoad } from '../road.ts';

const SERVE = fileURLToPath(new URL('./serve-road.ts', import.meta.url));

/** A road of some checkout. */
export interface ServedRoad extends BenchRoad {
  stop(): Promise<void>;
}

/** @throws Error when it does not start; what it printed says why */
export async function serveRoad(checkout: string): Promise<ServedRoad> {
  const child = spawn(process.execPath, [SERVE, checkout], {
    cwd: checkout,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const line = once(createInterface({ input: child.stdout }), 'line') as Promise<[string]>;
  const began = await Promise.race([line, ended.then(() => null)]);
  if (began === null) throw new Error(`no road could be started in ${checkout}`);
  return { ...(JSON.parse(began[0]) as BenchRoad), stop: () => stop(child, ended) };
}

async function stop(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  child.stdin?.end();
  await ended;
}
