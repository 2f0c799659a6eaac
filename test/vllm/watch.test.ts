import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ensureVllm, TINY_MODEL_ARGS, type VllmInstall } from '../../scripts/vllm/setup.ts';
import { EXIT } from '../../src/process/index.ts';
import type { JobView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import {
  beginJob,
  engineRunning,
  job,
  processesOfGroup,
  processesWith,
  type QueueProcess,
  startQueue,
  startWorker,
  tearDown,
  untilReady,
  type WorkerProcess,
  workers,
} from '../support/road.ts';
import { seenAtWork } from '../support/seen-at-work.ts';
import { LONG_CHOICES, openLongStream } from './long-stream.ts';
import { START_LIMIT, START_SECONDS } from './worker.ts';

/** What happens to a road when real vLLM dies, hangs or cannot start. */
let vllm: VllmInstall;
let queue: QueueProcess;
let worker: WorkerProcess | null = null;

beforeAll(async () => {
  vllm = await ensureVllm();
  queue = await startQueue();
});
afterAll(tearDown);

async function start(id: string, engineArgs: string[], env: NodeJS.ProcessEnv = {}): Promise<WorkerProcess> {
  return await startWorker(queue.url, id, {
    engineArgs: [...TINY_MODEL_ARGS, '--served-model-name', 'tiny', ...engineArgs].join(' '),
    env: {
      ...vllm.env,
      ENGINE: 'vllm',
      VLLM_MODEL: vllm.modelDir,
      VLLM_SERVE_COMMAND: vllm.vllmCommand,
      VLLM_STARTUP_TIMEOUT: String(START_SECONDS),
      ...env,
    },
  });
}

/** Takes jobs, for the nth time in its life. */
async function ready({ process, id }: WorkerProcess): Promise<void> {
  let ended = false;
  void process.exited.then(() => {
    ended = true;
  });
  const isReady = async () => ended || (await untilReady(queue.url, id));
  await until(isReady, `${id} takes jobs`, START_LIMIT);
  if (ended) throw new Error(`${id} ended:\n${process.output()}`);
}

/** Every process of the engine, by its title. */
async function engineProcesses({ enginePort }: WorkerProcess): Promise<Map<string, number[]>> {
  const [group] = await processesWith(`--port\0${enginePort}`);
  const titles = new Map<string, number[]>();
  for (const pid of group === undefined ? [] : await processesOfGroup(group)) {
    const [title = ''] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    // A tensor-parallel worker is called VLLM::Worker_TP0.
    const name = /VLLM::(?:EngineCore|Worker)/.exec(title)?.[0] ?? 'other';
    titles.set(name, [...(titles.get(name) ?? []), pid]);
  }
  return titles;
}

/**
 * Returns what signals the engine's core. Its process is looked for now: where that took long after a job was seen at
 * the engine, the job would be over before the signal.
 */
async function engineCore(of: WorkerProcess): Promise<(signal: NodeJS.Signals) => void> {
  const core = (await engineProcesses(of)).get('VLLM::EngineCore')?.[0];
  expect(core).toBeGreaterThan(0);
  return (signal) => process.kill(core as number, signal);
}

const messages = [{ role: 'user' as const, content: 'Say hello.' }];
/** Long enough to be caught at work, short enough to be done again. */
const SHORTER = { messages, max_tokens: 1200, ignore_eos: true };

/**
 * Waits until the engine has it, beside what it runs already: one that it has not is not charged when it dies.
 */
async function submitted(at: WorkerProcess, besides = 0) {
  const shorter = { job_type: 'chat_completion', config_id: 'cfg', payload: SHORTER };
  const runs = async () => (await engineRunning(at.engineUrl)) > besides;
  return await seenAtWork(() => beginJob(queue.url, shorter), runs, 'the engine runs a job', START_LIMIT);
}

/** After a restart under load. */
async function settledLater(id: string): Promise<JobView> {
  const seen = async () => {
    const view = await job(queue.url, id, 20);
    return view.settled_at ? view : null;
  };
  return await until(seen, `job ${id} is settled`, START_LIMIT);
}

describe('an engine that fails while it works', () => {
  beforeAll(async () => {
    worker = await start('restarting', [], {
      ENGINE_RESTARTS: '1',
      ENGINE_HANG_SECONDS: '6',
      CASOLA_SHUTDOWN_GRACE_PERIOD: '1',
    });
    await ready(worker);
  });

  it('is started again in place when its core is killed; the stream under way ends with an error', async () => {
    const before = worker as WorkerProcess;
    const signalCore = await engineCore(before);
    const stream = await openLongStream(queue.url);
    const queued = await submitted(before, LONG_CHOICES);
    signalCore('SIGKILL');
    expect((await stream.ended)?.message).toMatch(/broke off|EngineCore|engine/);
    expect(stream.finishes).not.toContain('abort');
    await before.process.waitForLine(/starting the engine again in 1 s \(1 of 1\)/);
    await until(
      // Which of its phases is seen is a matter of luck; together they take seconds.
      async () => (await workers(queue.url)).find(({ phase }) => phase !== null && phase !== 'ready'),
      'the heartbeat tells of the new start',
      START_LIMIT,
    );
    await ready(before);
    const view = await settledLater(queued.id);
    expect(view).toMatchObject({ state: 'succeeded', worker_id: 'restarting', attempts: 2 });
    expect(JSON.stringify(view.result)).not.toContain('"abort"');
  });

  it('is found to hang when its core is stopped, while its health check stays good', async () => {
    const hanging = worker as WorkerProcess;
    const all = [...(await engineProcesses(hanging)).values()].flat();
    const signalCore = await engineCore(hanging);
    const queued = await submitted(hanging);
    signalCore('SIGSTOP');
    expect((await fetch(`${hanging.engineUrl}/health`)).status).toBe(200);
    await hanging.process.waitForLine(/the engine hangs: it has work and made nothing/);
    // The one restart was for the test before.
    expect((await hanging.process.exited).code).toBe(EXIT.engineDied);
    expect(await job(queue.url, queued.id)).toMatchObject({ state: 'pending', attempts: 1 });
    // Killed, but a process with gigabytes may take a while to be gone.
    await until(() => !all.some(lives), 'nothing of the engine is left');
    await fetch(`${queue.url}/api/jobs/${queued.id}`, { method: 'DELETE' });
  });
});

describe('an engine whose supervisor is killed', () => {
  it('dies with all its processes: API server, engine core and tensor-parallel workers', async () => {
    const killed = await start('killed', ['--tensor-parallel-size', '2']);
    await ready(killed);
    const processes = await engineProcesses(killed);
    expect(processes.get('VLLM::EngineCore')).toHaveLength(1);
    expect(processes.get('VLLM::Worker')?.length).toBeGreaterThanOrEqual(2);
    const all = [...processes.values()].flat();
    // The command itself, and whatever of it is the supervisor.
    process.kill(killed.process.pid, 'SIGKILL');
    await until(() => !all.some(lives), 'nothing of the engine is left');
    await until(async () => (await processesWith(String(killed.enginePort))).length === 0, 'nothing is left');
  });
});

describe('an engine that cannot start', () => {
  let failing: WorkerProcess;
  afterEach(() => failing.process.stop());

  it('because there is no such model says so in one line, in the exit code and in the last heartbeat', async () => {
    failing = await start('no-model', [], { VLLM_MODEL: '/nowhere/model' });
    expect((await failing.process.exited).code).toBe(EXIT.badModel);
    const output = failing.process.output();
    expect(output).toContain('vllm failed to start: there is no such model. Check VLLM_MODEL');
    expect(output).toMatch(/The end of its log:.*HFValidationError/s);
    const last = (await workers(queue.url)).find(({ worker_id }) => worker_id === 'no-model');
    expect(last).toMatchObject({ status: 'failed', error_message: expect.stringContaining('no such model') });
  });

  it('because the memory does not suffice for the context names the length that would fit', async () => {
    const blocks = ['--max-model-len', '131072', '--num-gpu-blocks-override', '16'];
    failing = await start('too-long', blocks);
    expect((await failing.process.exited).code).toBe(EXIT.outOfMemory);
    const output = failing.process.output();
    expect(output).toContain('the memory does not suffice for a context of 131072 tokens');
    expect(output).toMatch(/Set --max-model-len \d+ or less/);
  });
});

function lives(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}
