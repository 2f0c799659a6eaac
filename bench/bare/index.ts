import { type ChildProcess, spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';

/** The road's shape without its rules: what the processor time of workerd and of the worker is held against. */
export interface BareRoad {
  url: string;
  pids: { workerd: number; worker: number };
  stop(): void;
}

const CONFIG = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [(name = "worker.js", esModule = embed "worker.js")],
      compatibilityDate = "2026-11-01",
      durableObjectNamespaces = [(className = "Bare", uniqueKey = "bare", enableSql = true)],
      durableObjectStorage = (localDisk = "data"),
      bindings = [(name = "BARE", durableObjectNamespace = "Bare")],
    )),
    (name = "data", disk = (path = "data", writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
`;

/** @param engineUrl what its worker asks */
export async function startBareRoad(engineUrl: string): Promise<BareRoad> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-bare-'));
  mkdirSync(join(folder, 'data'));
  copyFileSync(fileURLToPath(new URL('./worker.js', import.meta.url)), join(folder, 'worker.js'));
  writeFileSync(join(folder, 'config.capnp'), CONFIG);
  const workerd = spawn(
    createRequire(import.meta.url)('workerd').default as string,
    ['serve', 'config.capnp', '--control-fd=3'],
    { cwd: folder, stdio: ['ignore', 'inherit', 'inherit', 'pipe'] },
  );
  const { port } = JSON.parse(await firstLine(workerd, workerd.stdio[3] as Readable)) as { port: number };
  const url = `http://127.0.0.1:${port}`;
  const program = fileURLToPath(new URL('./engine-to-socket.ts', import.meta.url));
  const worker = spawn(process.execPath, [program, url, engineUrl], { stdio: ['ignore', 'pipe', 'inherit'] });
  await firstLine(worker, worker.stdout);
  return {
    url,
    pids: { workerd: workerd.pid!, worker: worker.pid! },
    stop: () => {
      for (const child of [worker, workerd]) child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** @throws Error when the program ends before it has said anything */
function firstLine(child: ChildProcess, output: Readable): Promise<string> {
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`${child.spawnfile} ended with ${code}`)));
    createInterface({ input: output }).once('line', resolve);
  });
}
