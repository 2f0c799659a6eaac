import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';

/** The road's shape without its rules: what the processor time of the queue and of the worker is held against. */
export interface BareRoad {
  url: string;
  pids: { queue: number; worker: number };
  stop(): void;
}

/** @param engineUrl what its worker asks */
export async function startBareRoad(engineUrl: string): Promise<BareRoad> {
  const queue = start('./server.ts');
  const url = `http://127.0.0.1:${await firstLine(queue, queue.stdout!)}`;
  const worker = start('./engine-to-socket.ts', url, engineUrl);
  await firstLine(worker, worker.stdout!);
  return {
    url,
    pids: { queue: queue.pid!, worker: worker.pid! },
    stop: () => {
      for (const child of [worker, queue]) child.kill('SIGKILL');
    },
  };
}

function start(program: string, ...args: string[]): ChildProcess {
  const path = fileURLToPath(new URL(program, import.meta.url));
  return spawn(process.execPath, [path, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
}

/** @throws Error when the program ends before it has said anything */
function firstLine(child: ChildProcess, output: Readable): Promise<string> {
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`${child.spawnfile} ended with ${code}`)));
    createInterface({ input: output }).once('line', resolve);
  });
}
