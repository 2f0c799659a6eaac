import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { COMPATIBILITY_DATE } from '../src/workerd/config.ts';
import { freePort } from '../test/support/ports.ts';

/**
 * Memory that workerd takes for many connections at a time without any code of ours, and what it keeps of it: the least
 * that a queue under such a load can take. Each line follows the one before in the same process.
 * node scripts/measure-connections.ts
 */
const MIB = 1024 * 1024;
const HANDLER = `
let reading = 0;
async function readAll(body) {
  while (reading >= 16) await new Promise((done) => setTimeout(done, 200 + 300 * Math.random()));
  reading += 1;
  const reader = body.getReader({ mode: 'byob' });
  let buffer = new Uint8Array(65536);
  for (let isDone = false; !isDone; ) {
    const { done, value } = await reader.read(buffer);
    if (value) buffer = new Uint8Array(value.buffer);
    isDone = done;
  }
  reading -= 1;
}
export default { async fetch(request) {
  const { pathname } = new URL(request.url);
  if (pathname === '/wait') await new Promise((done) => setTimeout(done, 5000));
  if (pathname === '/read') await readAll(request.body);
  return new Response('', { status: 503 });
} };`;

const folder = await mkdtemp(join(tmpdir(), 'connections-'));
const port = await freePort();
await writeFile(join(folder, 'handler.js'), HANDLER);
await writeFile(
  join(folder, 'config.capnp'),
  `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = (
    modules = [(name = "handler", esModule = embed "handler.js")],
    compatibilityDate = "${COMPATIBILITY_DATE}",
  ))],
  v8Flags = ["--max-semi-space-size=4"],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);`,
);
const workerd = createRequire(import.meta.url)('workerd').default as string;
const child = spawn(workerd, ['serve', join(folder, 'config.capnp')], { stdio: 'inherit' });
await sleep(1500);
console.log(`idle: ${await residentMb('VmRSS')} MB`);
await tell('3,000 small requests that are answered at once', () => volley('/now', 3000, 2));
await tell('5,000 small requests that wait for 5 s', () => volley('/wait', 5000, 100));
await tell('2,000 requests of 2 MiB, read 16 at a time', () => volley('/read', 2000, 2 * MIB));
await tell('2,000 requests of 2 MiB, answered at once', () => volley('/now', 2000, 2 * MIB));
await tell('5,000 small requests that wait for 5 s', () => volley('/wait', 5000, 100));
child.kill('SIGKILL');
await once(child, 'exit');
await rm(folder, { recursive: true });

async function tell(name: string, load: () => Promise<number>): Promise<void> {
  // The kernel counts the most anew.
  await writeFile(`/proc/${child.pid}/clear_refs`, '5');
  const answered = await load();
  const most = await residentMb('VmHWM');
  await sleep(2000);
  console.log(`${name}: ${answered} answered, ${most} MB at most, ${await residentMb('VmRSS')} after it`);
}

async function volley(path: string, count: number, bytes: number): Promise<number> {
  const body = new Uint8Array(bytes);
  const asked = Array.from({ length: count }, async () => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body });
    await response.arrayBuffer();
  });
  return (await Promise.allSettled(asked)).filter(({ status }) => status === 'fulfilled').length;
}

async function residentMb(field: 'VmHWM' | 'VmRSS'): Promise<number> {
  const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
  return Math.round(Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024);
}
