import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { freePort } from '../src/process/free-port.ts';

/**
 * Counts the files and functions of `src/` that run on the way of a job: it starts the whole road with a
 * probe in every process, does each thing several times, and keeps what ran every time. What runs on timers beside
 * it (heartbeats, leases) is left out where it does not run each time.
 *
 *     node scripts/way.ts                 this checkout
 *     node scripts/way.ts ../other        another checkout, for a comparison
 *     node scripts/way.ts --files         names the files too
 */

const ROUNDS = 4;
/** The checkout builds its programs first if they are not fresh, ms. */
const START_MS = 120_000;

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { files: { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h' } },
});
if (values.help) {
  console.log('Usage: node scripts/way.ts [CHECKOUT] [--files]');
  process.exit(0);
}
const checkout = resolve(positionals[0] ?? join(import.meta.dirname, '..'));
const folder = mkdtempSync(join(tmpdir(), 'worker-vllm-way-'));
const port = await freePort();
const url = `http://127.0.0.1:${port}`;

type Ran = Map<string, Set<string>>;

let started: ChildProcess | undefined;
const bundles: Record<string, (offset: number) => string> = {};

try {
  let road = await startRoad({ CASOLA_HEARTBEAT_INTERVAL: '3600' });
  const idle = await ranWithin(6000);
  await report('a stored chat job, until its result is read', storedJob, idle);
  await report('a streamed chat', () => chat(true), idle);
  await report('a chat answered in one piece', () => chat(false), idle);
  await end(road);

  const slow = { VLLM_EXTRA_ARGS: '--inter-token-latency-ms 100', CASOLA_HEARTBEAT_INTERVAL: '3600' };
  road = await startRoad({ ...slow, CASOLA_RENEW_LEASE_AFTER: '20' });
  await longJob();
  const unrenewed = await ranWithin(4000);
  await end(road);
  road = await startRoad({ ...slow, CASOLA_RENEW_LEASE_AFTER: '1' });
  await longJob();
  print('renewals of a lease', without(await ranWithin(4000), unrenewed));
  await end(road);

  road = await startRoad({ CASOLA_HEARTBEAT_INTERVAL: '1' });
  const viewer = new WebSocket(`${url.replace('http', 'ws')}/api/fleet/live`);
  await new Promise((opened) => viewer.addEventListener('open', opened));
  print('a heartbeat, until a page has it', without(await ranWithin(6000), idle));
  viewer.close();
  await end(road);
} finally {
  started?.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
}

async function startRoad(env: Record<string, string>): Promise<ChildProcess> {
  started = spawn(process.execPath, [join(checkout, 'bin/worker-vllm.js'), 'up'], {
    env: {
      ...process.env,
      ...env,
      QUEUE_PORT: String(port),
      WORKER_VLLM_STATE: join(folder, 'state'),
      WAY_FOLDER: folder,
      NODE_OPTIONS: `--import ${join(import.meta.dirname, 'way/probe.js')}`,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await waitFor(() => chat(false));
  return started;
}

async function end(road: ChildProcess): Promise<void> {
  road.kill('SIGTERM');
  await once(road, 'exit');
  for (const name of readdirSync(folder)) if (name.endsWith('.sock')) rmSync(join(folder, name));
}

async function report(what: string, act: () => Promise<unknown>, idle: Ran): Promise<void> {
  await act();
  let common: Ran | null = null;
  for (let round = 0; round < ROUNDS; round++) {
    await sleep(500);
    await taken();
    await act();
    await sleep(200);
    common = both(common, await taken());
  }
  print(what, without(common ?? new Map(), idle));
}

function print(what: string, ran: Ran): void {
  const functions = [...ran.values()].reduce((sum, { size }) => sum + size, 0);
  console.log(`${what}: ${ran.size} files, ${functions} functions`);
  const rooms = Map.groupBy(ran.keys(), (file) => file.split('/')[1]!);
  console.log(`    ${[...rooms].map(([room, files]) => `${room} ${files.length}`).join(', ')}`);
  if (values.files) for (const file of [...ran.keys()].sort()) console.log(`    ${file}`);
}

/** The functions that ran since the last call, by file, over all processes. */
async function taken(): Promise<Ran> {
  const sockets = readdirSync(folder).filter((name) => name.endsWith('.sock'));
  const answers = await Promise.all(
    sockets.map((name) => text(connect(join(folder, name))).catch(() => '[]')),
  );
  const ran: Ran = new Map();
  for (const [bundle, offset] of answers.flatMap((answer) => JSON.parse(answer))) {
    bundles[bundle] ??= sourcesOf(fileURLToPath(bundle));
    const [file, position] = bundles[bundle](offset).split('#') as [string, string];
    if (/^src\/(?!simulator)/.test(file)) ran.set(file, (ran.get(file) ?? new Set()).add(position));
  }
  return ran;
}

/** Returns what finds the place in the sources, as `file#line:column`, of an offset in a bundle. */
function sourcesOf(path: string): (offset: number) => string {
  const map = new SourceMap(JSON.parse(readFileSync(`${path}.map`, 'utf8')));
  const lines = readFileSync(path, 'utf8').split('\n');
  const starts = [0];
  for (const line of lines) starts.push(starts.at(-1)! + line.length + 1);
  return (offset) => {
    const line = starts.findLastIndex((start) => start <= offset);
    const entry = map.findEntry(line, offset - starts[line]!);
    if (!('originalSource' in entry)) return 'none#0';
    const file = /^(?:\.\.\/){2}(src\/.*)$/.exec(entry.originalSource)?.[1] ?? 'package';
    return `${file}#${entry.originalLine}:${entry.originalColumn}`;
  };
}

/** Returns what runs within a time, after a pause in which what was begun comes to rest. */
async function ranWithin(ms: number): Promise<Ran> {
  await sleep(2000);
  await taken();
  await sleep(ms);
  return taken();
}

function without(ran: Ran, left: Ran): Ran {
  const rest = [...ran].map(
    ([file, names]) => [file, namesWhere(names, (name) => !left.get(file)?.has(name))] as const,
  );
  return new Map(rest.filter(([, names]) => names.size > 0));
}

function namesWhere(names: Set<string>, isLeft: (name: string) => boolean): Set<string> {
  return new Set([...names].filter(isLeft));
}

function both(before: Ran | null, now: Ran): Ran {
  if (before === null) return now;
  const common = [...before].map(
    ([file, names]) => [file, namesWhere(names, (name) => now.get(file)?.has(name) === true)] as const,
  );
  return new Map(common.filter(([, names]) => names.size > 0));
}

async function storedJob(): Promise<void> {
  const { id } = await submitted(4);
  await waitFor(async () => {
    const { state } = await asked(`/api/jobs/${id}`);
    if (state !== 'succeeded') throw new Error(state);
  });
}

async function longJob(): Promise<void> {
  await submitted(1000);
}

function submitted(max_tokens: number): Promise<{ id: string }> {
  const payload = { messages: [{ role: 'user', content: 'Say hello.' }], max_tokens, ignore_eos: true };
  return asked('/api/jobs', { job_type: 'chat_completion', model: 'simulated', payload });
}

async function chat(stream: boolean): Promise<void> {
  const messages = [{ role: 'user', content: 'Say hello.' }];
  await asked('/v1/chat/completions', { model: 'simulated', messages, max_tokens: 4, stream });
}

async function asked(path: string, body?: object) {
  const response = await fetch(`${url}${path}`, {
    ...(body && {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    }),
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(`${response.status}: ${answer}`);
  return answer.startsWith('{') ? JSON.parse(answer) : answer;
}

async function waitFor(act: () => Promise<unknown>): Promise<void> {
  const until = Date.now() + START_MS;
  for (;;) {
    try {
      return void (await act());
    } catch (error) {
      if (Date.now() > until) throw error;
      await sleep(50);
    }
  }
}
