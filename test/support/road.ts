import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { WorkerView } from '../../src/gateway/fleet-views.ts';
import type { JobView } from '../../src/protocol/index.ts';
import { childrenOf } from '../soak/proc.ts';
import { until } from './poll.ts';
import { freePort } from './ports.ts';
import { type Child, killGroup, startProcess, stopAllProcesses } from './processes.ts';
import type { Begun } from './seen-at-work.ts';
import { startWranglerDev } from './wrangler-dev.ts';

/** The road as its users start it: commands in processes, spoken to over HTTP. */

export const CLI = fileURLToPath(new URL('../../bin/worker-vllm.js', import.meta.url));
/**
 * In `npm run test:cloudflare`, where `wrangler dev` is the queue. Its proxy does not pass on that a caller hangs up:
 * test/cloudflare/hang-ups.test.ts has that, without it.
 */
export const isDeployed = process.env.TEST_QUEUE === 'wrangler';
/** With `TEST_QUEUE=gateways` every queue has two gateways in processes of their own. */
const GATEWAYS: NodeJS.ProcessEnv = process.env.TEST_QUEUE === 'gateways' ? { QUEUE_GATEWAYS: '2' } : {};
const folders: string[] = [];
/** The folder where workers of this test file store results that the queue has not acknowledged. */
let stateHome: string | undefined;

/** A folder of its own for each test file's state. */
export function stateFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'worker-vllm-test-'));
  folders.push(folder);
  return folder;
}

/**
 * For `afterAll`: ends every process and removes every state folder. Workers that a launcher started as processes outlive
 * it, and a test that failed has not ended them.
 */
export async function tearDown(): Promise<void> {
  await stopAllProcesses();
  for (const folder of folders) (await processesWith(`${folder}/`)).forEach(killGroup);
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
  stateHome = undefined;
}

/** For programs: what was started ends with them when a signal ends them, by `timeout` too. */
export function tearDownOnSignals(): void {
  for (const [signal, code] of [
    ['SIGHUP', 129],
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    process.once(signal, async () => {
      await tearDown();
      process.exit(code);
    });
  }
}

/** The environment of this process without anything that would configure a road. */
export function cleanEnvironment(more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(CASOLA_|VLLM_|ENGINE|QUEUE_|WORKER_|RUNPOD_|CONTAINER_ID|VITEST|NODE_ENV)/.test(name),
  );
  stateHome ??= stateFolder();
  return { ...Object.fromEntries(inherited), XDG_STATE_HOME: stateHome, ...more };
}

/** Runs `worker-vllm …`. @param program another version's `bin/worker-vllm.js` */
export function cli(
  args: string[],
  env: NodeJS.ProcessEnv = {},
  name = `worker-vllm ${args[0]}`,
  program = CLI,
): Child {
  return startProcess(process.execPath, [program, ...args], {
    env: cleanEnvironment(env),
    cwd: tmpdir(),
    name,
  });
}

export interface QueueProcess {
  process: Child;
  url: string;
  port: number;
  stateDir: string;
}

/** A queue, ready: `worker-vllm queue`, or `wrangler dev` for tests of the deployed form. Give the port and folder of an earlier one to start it again. */
export async function startQueue(
  again: { port?: number; stateDir?: string; env?: NodeJS.ProcessEnv; program?: string } = {},
): Promise<QueueProcess> {
  const stateDir = again.stateDir ?? stateFolder();
  const port = again.port ?? (await freePort());
  const env = { QUEUE_RECONNECT_GRACE_SECONDS: '2', ...GATEWAYS, ...again.env };
  const process = isDeployed
    ? await startWranglerDev({ port, stateDir, env })
    : cli(['queue', '--port', String(port), '--state', stateDir], env, undefined, again.program);
  await process.waitForLine(/listening at|Ready on/);
  return { process, url: `http://127.0.0.1:${port}`, port, stateDir };
}

/** Kills what holds all objects of a queue, and waits until nothing of it is left. @param when it is found: resolves at the moment to kill it */
export async function killQueue(queue: QueueProcess, when: () => Promise<unknown> = async () => {}) {
  // Looked for before: the moment may be short, and the list of all processes long.
  const others = isDeployed ? [] : childrenOf(queue.process.pid);
  await when();
  // Of several processes of `wrangler dev` workerd is the one that keeps state.
  process.kill(isDeployed ? -queue.process.pid : queue.process.pid, 'SIGKILL');
  others.forEach(killGroup);
  await queue.process.exited;
  await until(async () => (await processesOfGroup(queue.process.pid)).length === 0, 'the queue is gone');
}

export interface WorkerProcess {
  process: Child;
  id: string;
  enginePort: number;
  engineUrl: string;
}

/** `worker-vllm supervise` with the simulator as its engine; not waited for. */
export async function startWorker(
  queueUrl: string,
  id: string,
  options: { engineArgs?: string; env?: NodeJS.ProcessEnv; program?: string } = {},
): Promise<WorkerProcess> {
  const enginePort = await freePort();
  const process = cli(
    ['supervise'],
    {
      ENGINE: 'simulator',
      VLLM_MODEL: 'tiny',
      VLLM_PORT: String(enginePort),
      VLLM_EXTRA_ARGS: options.engineArgs ?? '',
      CASOLA_WS_URL: queueUrl.replace(/^http/, 'ws'),
      CASOLA_API_URL: queueUrl,
      CASOLA_CONFIG_ID: 'cfg',
      CASOLA_INSTANCE_ID: id,
      CASOLA_MAX_JOBS: '8',
      ...options.env,
    },
    `worker ${id}`,
    options.program,
  );
  return { process, id, enginePort, engineUrl: `http://127.0.0.1:${enginePort}` };
}

export async function workers(queueUrl: string): Promise<WorkerView[]> {
  const answer = (await (await fetch(`${queueUrl}/api/workers`)).json()) as { workers: WorkerView[] };
  return answer.workers;
}

/** Waits until a worker takes jobs. */
export async function untilReady(queueUrl: string, id: string): Promise<WorkerView> {
  return await until(
    async () =>
      (await workers(queueUrl)).find((worker) => worker.worker_id === id && worker.state === 'ready'),
    `worker ${id} is ready`,
  );
}

/** A worker that takes jobs. */
export async function readyWorker(
  queueUrl: string,
  id: string,
  options: Parameters<typeof startWorker>[2] = {},
): Promise<WorkerProcess> {
  const worker = await startWorker(queueUrl, id, options);
  await Promise.race([
    untilReady(queueUrl, id),
    worker.process.exited.then(({ code }) => {
      throw new Error(`worker ${id} ended with ${code}:\n${worker.process.output()}`);
    }),
  ]);
  return worker;
}

export async function submit(queueUrl: string, job: Record<string, unknown>): Promise<JobView> {
  const response = await fetch(`${queueUrl}/api/jobs`, { method: 'POST', body: JSON.stringify(job) });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return (await response.json()) as JobView;
}

export function chatJob(maxTokens: number, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    job_type: 'chat_completion',
    config_id: 'cfg',
    payload: {
      messages: [{ role: 'user', content: 'Tell me something.' }],
      max_tokens: maxTokens,
      ignore_eos: true,
    },
    ...more,
  };
}

export async function job(queueUrl: string, id: string, waitSeconds = 0): Promise<JobView> {
  return (await (await fetch(`${queueUrl}/api/jobs/${id}?wait=${waitSeconds}`)).json()) as JobView;
}

/** Submits a long job that is to be seen at work. */
export async function beginJob(
  queueUrl: string,
  long: Record<string, unknown>,
): Promise<Begun & { id: string }> {
  const { id } = await submit(queueUrl, long);
  const howOver = async () => {
    const view = await job(queueUrl, id);
    return view.settled_at ? JSON.stringify(view).slice(0, 500) : null;
  };
  return { id, howOver };
}

/** Waits until a job is settled. */
export async function settled(queueUrl: string, id: string): Promise<JobView> {
  return await until(
    async () => {
      const view = await job(queueUrl, id, 20);
      return view.settled_at ? view : null;
    },
    `job ${id} is settled`,
    { timeoutMs: 50_000 },
  );
}

/** Requests the engine runs at this moment, from its own gauges. */
export function engineRunning(engineUrl: string): Promise<number> {
  return engineMetric(engineUrl, 'num_requests_running');
}

/** An argument of the simulator with which no answer ends before a test has looked; `setPace` then lets it go on. */
export const HELD = '--inter-token-latency-ms 2000';

/** Sets the pace of a simulator, for the answers too that it is at. */
export async function setPace(engineUrl: string, interTokenLatencyMs: number): Promise<void> {
  await postPace(engineUrl, { inter_token_latency_ms: interTokenLatencyMs });
}

/** Sets the pace of the simulators of several workers, which `setPace` sets for one. */
export async function setPaces(
  workers: readonly WorkerProcess[],
  interTokenLatencyMs: number,
): Promise<void> {
  await Promise.all(workers.map(({ engineUrl }) => setPace(engineUrl, interTokenLatencyMs)));
}

/**
 * Sets how long a simulator takes to the first token of an answer. A test sets it once the worker is ready, whose own
 * first question would take as long.
 */
export async function setFirstToken(engineUrl: string, timeToFirstTokenMs: number): Promise<void> {
  await postPace(engineUrl, { time_to_first_token_ms: timeToFirstTokenMs });
}

async function postPace(engineUrl: string, pace: Record<string, number>): Promise<void> {
  const response = await fetch(`${engineUrl}/simulator/pace`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify(pace),
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
}

/** Tokens that an engine has generated so far. */
export function engineGenerated(engineUrl: string): Promise<number> {
  return engineMetric(engineUrl, 'generation_tokens_total');
}

async function engineMetric(engineUrl: string, name: string): Promise<number> {
  // An engine closes a connection that was idle for five seconds, also under a request that just takes it.
  const text = await (await fetch(`${engineUrl}/metrics`, { headers: { connection: 'close' } })).text();
  const lines = text.matchAll(new RegExp(`^vllm:${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'));
  return [...lines].reduce((sum, match) => sum + Number(match[1]), 0);
}

/** Process ids whose command line contains the text. */
export async function processesWith(text: string): Promise<number[]> {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((name) => {
      try {
        return readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(text);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** Every process of a process group that still runs; the dead that nobody has reaped yet do not count. */
export async function processesOfGroup(group: number): Promise<number[]> {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        // The name in parentheses may hold blanks; state, parent and group follow it.
        const fields = readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1)?.split(' ');
        return Number(fields?.[2]) === group && fields?.[0] !== 'Z';
      } catch {
        return false;
      }
    })
    .map(Number);
}
