import { spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';

export interface BareServer {
  url: string;
  pid: number;
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

/** workerd with nothing but a route that calls an object. */
export async function startBare(): Promise<BareServer> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-bare-'));
  mkdirSync(join(folder, 'data'));
  copyFileSync(fileURLToPath(new URL('./worker.js', import.meta.url)), join(folder, 'worker.js'));
  writeFileSync(join(folder, 'config.capnp'), CONFIG);
  const program = createRequire(import.meta.url)('workerd').default as string;
  const child = spawn(program, ['serve', 'config.capnp', '--control-fd=3'], {
    cwd: folder,
    stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
  });
  const lines = createInterface({ input: child.stdio[3] as Readable });
  const port = await new Promise<number>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the bare workerd ended with ${code}`)));
    lines.on('line', (line) => {
      const message = JSON.parse(line) as { event: string; port: number };
      if (message.event === 'listen') resolve(message.port);
    });
  });
  return {
    url: `http://127.0.0.1:${port}`,
    pid: child.pid as number,
    stop: () => {
      child.removeAllListeners('exit');
      child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
