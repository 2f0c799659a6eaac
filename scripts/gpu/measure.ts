import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { cpSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { ask, type Load, load, MODEL } from './load.ts';

/**
 * Measures what the road costs over an engine on a real GPU, and whether the GPU is seen: `transformers serve` with
 * random weights, a worker with the machine's own nvidia-smi, and a queue, on one machine. It imports no package, since
 * it runs from the folder that pack.ts makes (`run.sh` starts it). It prints a table for docs/performance.md and writes
 * JSON. It takes some five minutes, and ten at the most.
 */

const READY_MS = 180_000;
const ALL_MS = 570_000;

const { values: given } = parseArgs({
  options: {
    device: { type: 'string', default: 'cuda' },
    seconds: { type: 'string', default: '20' },
    out: { type: 'string', default: 'gpu.json' },
    work: { type: 'string' },
    python: { type: 'string' },
  },
});
const isGpu = given.device === 'cuda';
// A CPU generates for one after another.
const [CONCURRENCY, TOKENS] = isGpu ? [[1, 8, 32], 64] : [[1, 4], 16];
const { work, python } = given as { work: string; python: string };
const here = import.meta.dirname;
const program = join(work, 'package/bin/worker-vllm.js');
const state = join(work, 'state');
const [port, enginePort] = [await freePort(), await freePort()];
const url = `http://127.0.0.1:${port}`;
const children = new Set<ChildProcess>();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => fail(`${signal}: ended`, 1));
setTimeout(() => fail(`it took more than ${ALL_MS / 1000} s in all`, 1), ALL_MS).unref();

interface Gpu {
  name: string;
  memory_used_bytes?: number;
  utilization?: number;
  temperature_celsius?: number;
  power_watts?: number;
}

const smi = isGpu ? realGpu() : standInGpu();
console.log(`GPU: ${smi.gpu}`);
const refused = await refusesOtherGpu();
console.log(
  `preflight refuses another GPU than the expected one: exit code ${refused.code}, ${refused.text}`,
);
say('writing random weights');
execFileSync(python, [join(here, 'engine.py'), given.device, 'make', join(work, 'cache/hub')], {
  stdio: ['ignore', 'ignore', 'inherit'],
});

say('starting queue, worker and engine, GPU_CHECK=strict');
const began = performance.now();
const up = start(['up', '--port', String(port), '--state', state], { GPU_CHECK: 'strict' });
await until(
  () => up.output().includes('Ready: '),
  () => up.ended(),
  `the engine was not ready. ${up.output().slice(-3000)}`,
);
const readySeconds = (performance.now() - began) / 1000;
await ask(url, 4);
const idle = await gpus();
if (idle.length === 0) fail('/api/fleet shows no GPU', 1);

const seen: Gpu[] = [];
const loads: { direct: Load; road: Load }[] = [];
for (const concurrency of CONCURRENCY) {
  say(`${concurrency} at a time`);
  const shape = { tokens: TOKENS, concurrency, seconds: Number(given.seconds) };
  // Each waits for its kernels to be chosen once before it is measured.
  await load(`http://127.0.0.1:${enginePort}`, { ...shape, seconds: 3 });
  const direct = await load(`http://127.0.0.1:${enginePort}`, shape);
  const watch = setInterval(() => void gpus().then((found) => seen.push(...found)), 2000);
  const road = await load(url, shape);
  clearInterval(watch);
  loads.push({ direct, road });
}
const job = await storedJob();
const page = (await (await fetch(`${url}/`, { headers: { accept: 'text/html' } })).text()).includes(
  '<title>worker-vllm</title>',
);
up.child.kill('SIGTERM');
const code = await up.exited;
const result = {
  device: given.device,
  ...smi,
  node: process.version,
  preflightOfAnotherGpu: refused,
  readySeconds,
  idle,
  mostUnderLoad: {
    utilization: most('utilization'),
    memory_used_bytes: most('memory_used_bytes'),
    power_watts: most('power_watts'),
    temperature_celsius: most('temperature_celsius'),
  },
  loads,
  storedJob: job,
  page,
  exitCode: code,
  memoryUsedAfterMib: query('memory.used'),
};
writeFileSync(given.out, `${JSON.stringify(result, null, 2)}\n`);
print();
const isGood =
  refused.code === 8 &&
  job === 'succeeded' &&
  page &&
  code === 0 &&
  loads.every(({ road }) => road.failed === 0);
if (!isGood) fail(`something is not as it should be: see ${given.out}`, 1);
console.log(`\nWritten to ${given.out}.`);
process.exit(0);

function print(): void {
  const { utilization, memory_used_bytes: bytes = 0, power_watts: watts } = result.mostUnderLoad;
  console.log(
    `\n${smi.gpu}, driver ${smi.driver}; torch ${smi.torch}, transformers ${smi.transformers}; ${process.version}.`,
  );
  console.log(
    `As the fleet showed it under load: ${Math.round((utilization ?? 0) * 100)} % busy, ${Math.round(bytes / 2 ** 20)} MiB, ${watts ?? '?'} W.\n`,
  );
  console.log(
    '| at a time | first token p50 / p99, direct | by the road | tokens a second, direct | by the road |',
  );
  console.log('| --- | --- | --- | --- | --- |');
  for (const { direct, road } of loads) {
    const first = (one: Load) => `${one.firstTokenP50.toFixed(1)} / ${one.firstTokenP99.toFixed(1)} ms`;
    const cells = [
      direct.concurrency,
      first(direct),
      first(road),
      direct.tokensPerSecond.toFixed(0),
      road.tokensPerSecond.toFixed(0),
    ];
    console.log(`| ${cells.join(' | ')} |`);
  }
}

function realGpu() {
  let gpu = '';
  try {
    gpu = query('name');
  } catch {
    fail(
      'this machine has no GPU that nvidia-smi shows. Run it on one that has, or with --device cpu, which shows that the script works and measures no GPU.',
      2,
    );
  }
  if (askPython('torch.cuda.is_available()') !== 'True')
    fail(
      `nvidia-smi shows ${gpu}, but torch of ${python} sees no GPU: it needs a build for CUDA that the driver can run.`,
      2,
    );
  return { gpu, driver: query('driver_version'), ...versions() };
}

/** The machine's own nvidia-smi where it has one. */
function standInGpu() {
  try {
    return {
      gpu: `none used; nvidia-smi shows ${query('name')}`,
      driver: query('driver_version'),
      ...versions(),
    };
  } catch {
    cpSync(join(here, 'nvidia-smi'), join(work, 'nvidia-smi'));
    return { gpu: 'none: a stand-in for nvidia-smi, and a CPU', driver: 'none', ...versions() };
  }
}

function versions() {
  return { torch: askPython('torch.__version__'), transformers: askPython('transformers.__version__') };
}

function query(column: string): string {
  const args = [`--query-gpu=${column}`, '--format=csv,noheader,nounits'];
  return execFileSync('nvidia-smi', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
}

function askPython(expression: string): string {
  const asked = `import torch, transformers; print(${expression})`;
  return execFileSync(python, ['-c', asked], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim();
}

/** A worker that is told to expect another GPU must not start its engine. */
async function refusesOtherGpu(): Promise<{ code: number; text: string }> {
  const refusing = start(['supervise'], {
    GPU_CHECK: 'strict',
    CASOLA_EXPECTED_GPU_NAME: 'no such GPU',
    CASOLA_WS_URL: `ws://127.0.0.1:${port}`,
    CASOLA_API_URL: url,
    CASOLA_API_TOKEN: 'none',
    CASOLA_CONFIG_ID: 'local',
  });
  const ended = await refusing.exited;
  return {
    code: ended,
    text: /this machine's GPUs.*?in its name/.exec(refusing.output())?.[0] ?? refusing.output().slice(-500),
  };
}

function start(args: string[], more: NodeJS.ProcessEnv) {
  const child = spawn(process.execPath, [program, ...args], {
    cwd: work,
    env: {
      ...process.env,
      ENGINE: 'vllm',
      VLLM_MODEL: MODEL,
      VLLM_SERVE_COMMAND: `${python} ${join(here, 'engine.py')} ${given.device}`,
      VLLM_PORT: String(enginePort),
      VLLM_STARTUP_TIMEOUT: String(READY_MS / 1000),
      // Fields that only vLLM knows.
      MIGRATION: 'off',
      CASOLA_MAX_JOBS: '32',
      CASOLA_HEARTBEAT_INTERVAL: '2',
      HF_HOME: join(work, 'cache'),
      HF_HUB_OFFLINE: '1',
      XDG_STATE_HOME: join(work, 'home'),
      ...more,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.add(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => (output += text));
  let hasEnded = false;
  const exited = new Promise<number>((done) => child.once('close', (ended) => done(ended ?? -1)));
  void exited.then(() => (hasEnded = true));
  return { child, exited, output: () => output, ended: () => hasEnded };
}

/** As the page and the command `top` read them. */
async function gpus(): Promise<Gpu[]> {
  const fleet = (await (await fetch(`${url}/api/fleet`)).json()) as { workers: { gpus?: Gpu[] }[] };
  return fleet.workers.flatMap((worker) => worker.gpus ?? []);
}

async function storedJob(): Promise<string> {
  const payload = { model: MODEL, messages: [{ role: 'user', content: 'Say hello.' }], max_tokens: 8 };
  const response = await fetch(`${url}/api/jobs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ job_type: 'chat_completion', payload }),
  });
  const { id } = (await response.json()) as { id: string };
  return ((await (await fetch(`${url}/api/jobs/${id}?wait=60&result=0`)).json()) as { state: string }).state;
}

function most(figure: 'utilization' | 'memory_used_bytes' | 'power_watts' | 'temperature_celsius') {
  const known = seen.flatMap((gpu) => gpu[figure] ?? []);
  return known.length > 0 ? Math.max(...known) : undefined;
}

async function until(isSo: () => boolean, isOver: () => boolean, problem: string): Promise<void> {
  for (
    const deadline = performance.now() + READY_MS;
    performance.now() < deadline && !isOver();
    await sleep(100)
  )
    if (isSo()) return;
  fail(problem, 1);
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port: free } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return free;
}

function say(text: string): void {
  console.log(`${text} ...`);
}

function fail(problem: string, exitCode: number): never {
  console.error(problem);
  for (const child of children) child.kill('SIGKILL');
  process.exit(exitCode);
}
