import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { startSimulator } from '../../src/simulator/index.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { startProcess, stopAllProcesses } from '../support/processes.ts';
import {
  CLI,
  cleanEnvironment,
  cli,
  processesWith,
  stateFolder,
  tearDown,
  workers,
} from '../support/road.ts';

/** `npm start`, as a newcomer types it. */
afterEach(stopAllProcesses);
afterAll(tearDown);

async function up(env: NodeJS.ProcessEnv = {}) {
  const stateDir = stateFolder();
  const port = await freePort();
  const process = cli(['up', '--port', String(port), '--state', stateDir], env);
  return { process, stateDir, port, url: `http://127.0.0.1:${port}` };
}

async function say(url: string, model: string): Promise<{ status: number; text: string }> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model, max_tokens: 5, messages: [{ role: 'user', content: 'Say hello.' }] }),
  });
  return { status: response.status, text: await response.text() };
}

/** What engine and worker have written. */
function logOf(stateDir: string): string {
  return readFileSync(join(stateDir, 'worker.log'), 'utf8');
}

/** The engine's and the worker's processes run without the state folder in their command line. */
async function leftovers(stateDir: string): Promise<number[]> {
  const enginePort = /--port[= ](\d+)|'port': (\d+)/.exec(logOf(stateDir));
  const port = enginePort?.[1] ?? enginePort?.[2];
  return [...(await processesWith(stateDir)), ...(port ? await processesWith(`--port\0${port}`) : [])];
}

describe('worker-vllm up', () => {
  it('says at once what it does, loudly that answers are simulated, and gives lines that work when pasted', async () => {
    const road = await up();
    await road.process.waitForLine(/Ready: /);
    const output = road.process.output();
    // Whoever starts it for the first time looks for something to look at.
    expect(output).toMatch(new RegExp(`^(?:>.*\\n|\\s)*Dashboard: ${road.url}/\\n`));
    const page = await fetch(`${road.url}/`, { headers: { accept: 'text/html' } });
    expect(await page.text()).toContain('<title>worker-vllm</title>');
    expect(output.indexOf('SIMULATED')).toBeLessThan(output.indexOf('Ready:'));
    // What engine and worker say is in a file, whose place is told.
    expect(output.slice(0, output.indexOf('Ready:')).trim().split('\n').length).toBeLessThan(8);
    expect(output).toContain(join(road.stateDir, 'worker.log'));
    const log = logOf(road.stateDir);
    expect(log).toMatch(/INFO: engine: .*Application startup complete/);
    expect(log).toMatch(/INFO: worker: taking jobs/);
    const curl = /curl \S+\/v1\/chat\/completions .*/.exec(output)?.[0];
    const { execFileSync } = await import('node:child_process');
    const answer = JSON.parse(execFileSync('sh', ['-c', `${curl} -s`], { encoding: 'utf8' }));
    expect(answer.choices[0].message.content).toBeTruthy();
    expect(output).toContain(`baseURL: 'http://127.0.0.1:${road.port}/v1'`);
    const [worker] = await workers(road.url);
    // The first snapshot leaves out what the engine did not tell in time; the next one is due after 30 s.
    await until(async () => {
      const metrics = await fetch(`${road.url}/api/workers/${worker?.worker_id}/metrics`);
      const { metrics: snapshots } = (await metrics.json()) as { metrics: Record<string, unknown>[] };
      return snapshots.some(({ vllm_waiting_requests: waiting }) => waiting === 0);
    }, 'a snapshot with what the engine says');

    road.process.kill('SIGINT');
    expect((await road.process.exited).code).toBe(EXIT.ok);
    expect(await leftovers(road.stateDir)).toEqual([]);
  });

  it('shows on a terminal how the start goes, in one line that goes when it is over', async () => {
    const stateDir = stateFolder();
    const command = `${process.execPath} ${CLI} up --port ${await freePort()} --state ${stateDir}`;
    const extra = { ENGINE: 'simulator', VLLM_EXTRA_ARGS: '--startup-seconds 2' };
    const terminal = startProcess('script', ['-qefc', command, '/dev/null'], {
      env: cleanEnvironment(extra),
    });
    await terminal.waitForLine(/Ready: /);
    const before = terminal.output().split('Ready: ')[0]!;
    expect(before).toContain('\r\x1b[2KEngine: loading');
    expect(before.split('\n').filter((line) => line.includes('Engine: loading'))).toHaveLength(1);
    expect(before.trimEnd().endsWith('\x1b[2K')).toBe(true);
    terminal.kill('SIGTERM');
    await terminal.exited;
    await until(async () => (await leftovers(stateDir)).length === 0, 'nothing is left');
  });

  it('ends in order on SIGTERM, at once on a second signal, and leaves nothing behind when it is killed', async () => {
    const polite = await up();
    await polite.process.waitForLine(/Ready: /);
    polite.process.kill('SIGTERM');
    expect((await polite.process.exited).code).toBe(EXIT.ok);

    const hasty = await up();
    await hasty.process.waitForLine(/Ready: /);
    hasty.process.kill('SIGINT');
    await until(async () => {
      hasty.process.kill('SIGINT');
      return await Promise.race([
        hasty.process.exited.then(() => true),
        new Promise((done) => setTimeout(done, 400)),
      ]);
    }, 'a second Ctrl-C ends it');

    const killed = await up();
    await killed.process.waitForLine(/Ready: /);
    killed.process.kill('SIGKILL');
    await until(
      async () => (await leftovers(killed.stateDir)).length === 0,
      'nothing is left of the killed road',
    );
    expect(await leftovers(hasty.stateDir)).toEqual([]);
  });

  it('ends in order when it is npm that gets the SIGTERM', async () => {
    const stateDir = stateFolder();
    const args = ['start', '--', '--port', String(await freePort()), '--state', stateDir];
    const npm = startProcess('npm', args, { env: cleanEnvironment({}) });
    await npm.waitForLine(/Ready: /);
    npm.kill('SIGTERM');
    await npm.waitForLine(/Everything has ended/);
    expect((await npm.exited).code).toBe(EXIT.ok);
    expect(await leftovers(stateDir)).toEqual([]);
  });

  it('attaches to an engine that runs already', async () => {
    const engine = await startSimulator({ model: 'already-there' });
    try {
      const road = await up({ ENGINE_URL: engine.url });
      await road.process.waitForLine(/Ready: /);
      expect(road.process.output()).not.toContain('SIMULATED');
      expect(await say(road.url, 'already-there')).toMatchObject({ status: 200 });
    } finally {
      await engine.close();
    }
  });

  it('keeps its jobs from one start to the next', async () => {
    const first = await up();
    await first.process.waitForLine(/Ready: /);
    const job = {
      id: 'kept',
      job_type: 'chat_completion',
      payload: { messages: [{ role: 'user', content: 'x' }] },
    };
    await fetch(`${first.url}/api/jobs`, { method: 'POST', body: JSON.stringify(job) });
    await until(async () => {
      const view = (await (await fetch(`${first.url}/api/jobs/kept`)).json()) as { state: string };
      return view.state === 'succeeded';
    }, 'the job is done');
    first.process.kill('SIGTERM');
    await first.process.exited;
    const again = cli(['up', '--port', String(first.port), '--state', first.stateDir]);
    await again.waitForLine(/Ready: /);
    expect(await (await fetch(`${first.url}/api/jobs/kept`)).json()).toMatchObject({ state: 'succeeded' });
  });

  it('ends with the reason when its engine cannot start', async () => {
    const road = await up({
      ENGINE: 'simulator',
      VLLM_EXTRA_ARGS: '--fault start_failure=true',
    });
    const { code } = await road.process.exited;
    expect(code).toBe(EXIT.engineFailedToStart);
    const output = road.process.output();
    expect(output).toContain('simulator failed to start: RuntimeError: simulated failure');
    expect(output).toMatch(/The end of its log:.*Starting to load model/);
    expect(output).not.toContain('"name":"engine"');
    expect(await leftovers(road.stateDir)).toEqual([]);
  });
});
