import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

/**
 * Whether worker-vllm does all of its work on this platform: a queue and a simulated worker answer chats and run jobs,
 * are ended, killed and started again, and nothing that was acknowledged is lost. It needs Node and no package, and
 * imports nothing of ours, so that it can be copied to a machine that has the installed command alone:
 *
 *     node scripts/walk.ts                    the command of this checkout
 *     node walk.ts worker-vllm                an installed one
 *     node walk.ts node_modules/.bin/worker-vllm
 *
 * It prints a line for each step and ends with 0, or stops at the first that fails and ends with 1.
 */

/** Emulated processors are slow, ms. */
const LIMIT_MS = 180_000;
/** Jobs that are acknowledged before everything is killed. */
const JOBS = 100;

const USAGE = 'Usage: node walk.ts [command, unless it is the one of this checkout] [its first arguments]';

const [named = join(import.meta.dirname, '../bin/worker-vllm.js'), ...first] = given();
const program = named.includes('/') ? resolve(named) : named;
const folder = mkdtempSync(join(tmpdir(), 'worker-vllm-walk-'));
const state = join(folder, 'state');
const [port, enginePort] = await Promise.all([freePort(), freePort()]);
const url = `http://127.0.0.1:${port}`;
const started = new Set<Running>();

interface Running {
  child: ChildProcess;
  output: string;
  exited: Promise<number | string>;
}

try {
  const { platform, arch, version, versions } = process;
  console.log(`Node ${version} on ${system()} (${platform}, ${arch}), SQLite ${versions.sqlite}`);
  await walk();
  console.log('All steps passed.');
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  for (const { output } of started) console.error(`\nIts output:\n${output.slice(-4000)}`);
  process.exitCode = 1;
} finally {
  for (const { child } of started) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
}

/** The command to walk with; ends the process where it was asked for help, or an option is unknown. */
function given(): string[] {
  try {
    const options = { help: { type: 'boolean', short: 'h' } } as const;
    const { values, positionals } = parseArgs({ allowPositionals: true, options });
    if (!values.help) return positionals;
    console.log(USAGE);
    process.exit(0);
  } catch (error) {
    console.error(`error: ${(error as Error).message}\n${USAGE}`);
    process.exit(2);
  }
}

async function walk(): Promise<void> {
  let up = await startUp();
  const page = await (await fetch(`${url}/`, { headers: { accept: 'text/html' } })).text();
  step('the page', page.includes('<title>worker-vllm</title>'));
  const chat = { messages: [{ role: 'user', content: 'Say hello.' }] };
  const whole = (await asked('/v1/chat/completions', chat)) as { choices?: unknown[] };
  step('a chat', whole.choices?.length === 1);
  const streamed = await (await post('/v1/chat/completions', { ...chat, stream: true })).text();
  step('a streamed chat', streamed.split('data: ').length > 3 && streamed.trimEnd().endsWith('[DONE]'));
  const { id } = (await asked('/api/jobs', { job_type: 'chat_completion', payload: chat })) as { id: string };
  step('a stored job', (await settled(id)) === 'succeeded');

  const second = start(['up', '--port', String(await freePort()), '--state', state]);
  step(
    'one folder is refused to a second queue',
    (await second.exited) !== 0 && /in use by/.test(second.output),
  );
  started.delete(second);

  up.child.kill('SIGTERM');
  step('SIGTERM ends everything in order', (await up.exited) === 0 && /Everything has ended/.test(up.output));
  started.delete(up);
  step('the engine has ended too', await isFree(enginePort));

  up = await startUp();
  step('the job of the first start is there', (await settled(id)) === 'succeeded');
  const jobs = Array.from({ length: JOBS }, (_, index) =>
    asked('/api/jobs', { id: `job-${index}`, job_type: 'chat_completion', payload: chat }),
  );
  await Promise.all(jobs);
  up.child.kill('SIGKILL');
  await up.exited;
  started.delete(up);
  step('SIGKILL of the queue ends worker and engine', await until(() => isFree(enginePort)));

  up = await startUp();
  const ends = await Promise.all(jobs.map((_, index) => settled(`job-${index}`)));
  step(
    'no acknowledged job is lost to SIGKILL',
    ends.every((end) => end === 'succeeded'),
  );
  const copy = join(folder, 'backup');
  step(
    'a backup beside the running queue',
    (await start(['state', 'backup', copy, '--state', state]).exited) === 0,
  );
  up.child.kill('SIGINT');
  step('SIGINT ends everything in order', (await up.exited) === 0);
  started.delete(up);
  const restored = join(folder, 'restored');
  step('the backup is restored', (await start(['state', 'restore', copy, '--state', restored]).exited) === 0);
  step('it is whole', (await start(['state', 'check', '--state', restored]).exited) === 0);
}

/** Queue, simulated engine and worker, ready for requests. */
async function startUp(): Promise<Running> {
  const up = start(['up', '--port', String(port), '--state', state]);
  let hasEnded = false;
  void up.exited.then(() => {
    hasEnded = true;
  });
  await until(() => up.output.includes('Ready: ') || hasEnded);
  step('it starts', up.output.includes('Ready: '));
  return up;
}

function start(args: string[]): Running {
  const isScript = /\.js$/.test(program);
  const [command, before] = isScript ? [process.execPath, [program]] : [program, []];
  const child = spawn(command, [...before, ...first, ...args], {
    cwd: folder,
    env: environment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = new Promise<number | string>((done) => {
    child.once('error', ({ message }) => done(message));
    child.once('exit', (code, signal) => done(code ?? signal!));
  });
  const running: Running = { child, output: '', exited };
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      running.output += text;
    });
  }
  started.add(running);
  return running;
}

/** Without what would configure another road. */
function environment(): NodeJS.ProcessEnv {
  const own = /^(?:CASOLA_|VLLM_|ENGINE|QUEUE_|WORKER_|npm_)/;
  const inherited = Object.entries(process.env).filter(([name]) => !own.test(name));
  return {
    ...Object.fromEntries(inherited),
    XDG_STATE_HOME: join(folder, 'home'),
    ENGINE: 'simulator',
    VLLM_PORT: String(enginePort),
  };
}

async function post(path: string, body: object): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function asked(path: string, body: object): Promise<unknown> {
  const response = await post(path, body);
  const text = await response.text();
  if (!response.ok) throw new Error(`POST ${path} answered ${response.status}: ${text}`);
  return JSON.parse(text);
}

async function settled(id: string): Promise<string> {
  const response = await fetch(`${url}/api/jobs/${id}?wait=150&result=0`);
  return ((await response.json()) as { state: string }).state;
}

function step(name: string, isGood: boolean): void {
  if (!isGood) throw new Error(`FAILED: ${name}`);
  console.log(`ok: ${name}`);
}

async function until(isSo: () => boolean | Promise<boolean>): Promise<boolean> {
  for (const deadline = performance.now() + LIMIT_MS; performance.now() < deadline; await sleep(100))
    if (await isSo()) return true;
  return false;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return address.port;
}

/** Whether nobody listens on it. */
async function isFree(at: number): Promise<boolean> {
  return await fetch(`http://127.0.0.1:${at}/health`).then(
    () => false,
    () => true,
  );
}

function system(): string {
  try {
    return /^PRETTY_NAME="?([^"\n]*)/m.exec(readFileSync('/etc/os-release', 'utf8'))![1]!;
  } catch {
    return process.platform;
  }
}
