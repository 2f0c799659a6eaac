import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../support/ports.ts';
import { startProcess, stopAllProcesses } from '../support/processes.ts';
import { cleanEnvironment, tearDown } from '../support/road.ts';

/** What `npm publish` would publish, installed as npm would install it. */
const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));

let app: string;
let contents: string[];

beforeAll(() => {
  app = mkdtempSync(join(tmpdir(), 'published-'));
  const packed = execFileSync('npm', ['pack', '--json', '--pack-destination', app], {
    cwd: REPOSITORY,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  // What prepack prints stands before it.
  const [{ filename, files }] = JSON.parse(packed.slice(packed.indexOf('[\n')));
  contents = files.map(({ path }: { path: string }) => path);
  execFileSync('tar', ['-xzf', join(app, filename), '-C', app]);
  const installed = join(app, 'node_modules/worker-vllm');
  mkdirSync(dirname(installed));
  cpSync(join(app, 'package'), installed, { recursive: true });
  // Its dependencies alone: what it uses and does not declare is missing here.
  const { dependencies } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
  for (const name of Object.keys(dependencies)) {
    symlinkSync(join(REPOSITORY, 'node_modules', name), join(app, 'node_modules', name));
  }
  writeFileSync(join(app, 'package.json'), '{"type":"module"}');
});

afterAll(async () => {
  await stopAllProcesses();
  await tearDown();
  rmSync(app, { recursive: true, force: true });
});

function command(...args: string[]) {
  const program = join(app, 'node_modules/worker-vllm/bin/worker-vllm.js');
  return startProcess(process.execPath, [program, ...args], { cwd: app, env: cleanEnvironment() });
}

describe('the published package', () => {
  it('has the command, what it runs and the types of its exports, and nothing else', () => {
    const expected = [
      /^(?:README\.md|LICENSE|CHANGELOG\.md|package\.json)$/,
      /^bin\/worker-vllm\.js$/,
      /^dist\/[\w/-]+\.js(?:\.map)?$/,
      /^dist\/programs\/(?:licenses\.txt|dashboard\.bin)$/,
      /^dist\/(?:client|protocol)\/[\w-]+\.d\.ts$/,
    ];
    expect(contents.filter((path) => !expected.some((pattern) => pattern.test(path)))).toEqual([]);
    for (const name of ['cli', 'worker', 'supervisor', 'simulator', 'gateway']) {
      expect(contents).toContain(`dist/programs/${name}.js`);
    }
    expect(contents).toContain('dist/client/index.d.ts');
    expect(contents).toContain('dist/programs/dashboard.bin');
  });

  it('runs the command', async () => {
    const help = command('--help');
    expect((await help.exited).code).toBe(0);
    expect(help.output()).toContain('Usage: worker-vllm');
  });

  it('serves queue, worker and simulator, and its client submits a job to them', async () => {
    const port = await freePort();
    const road = command('up', '--port', String(port), '--state', join(app, 'state'));
    await road.waitForLine(/Ready: /);
    writeFileSync(
      join(app, 'submit.js'),
      `import { JobClient } from 'worker-vllm/client';
       import { isSettled } from 'worker-vllm/protocol';
       const client = new JobClient({ url: 'http://127.0.0.1:${port}' });
       const payload = { messages: [{ role: 'user', content: 'Say hello.' }] };
       const { id } = await client.submit({ job_type: 'chat_completion', payload });
       const job = await client.wait(id);
       console.log(job.state, isSettled((await client.cancel(id)).state));`,
    );
    const submitted = startProcess(process.execPath, ['submit.js'], { cwd: app });
    await submitted.exited;
    expect(submitted.output()).toBe('succeeded true\n');
    const page = await fetch(`http://127.0.0.1:${port}/`, { headers: { accept: 'text/html' } });
    expect(await page.text()).toContain('<title>worker-vllm</title>');
    road.kill('SIGTERM');
    expect((await road.exited).code).toBe(0);
  });

  it('has types for its client and its protocol', () => {
    writeFileSync(
      join(app, 'typed.ts'),
      `import { JobClient, QueueError, type JobView } from 'worker-vllm/client';
       import { Failure, type WorkerFrame } from 'worker-vllm/protocol';
       const client = new JobClient({ url: 'http://127.0.0.1' });
       export const job: Promise<JobView> = client.submit({ job_type: 'engine_request', payload: {} });
       // @ts-expect-error
       export const wrong = client.submit({ job_type: 7, payload: {} });
       export const frame: WorkerFrame['type'] = 'job_result';
       export const failure: string = Failure.parse({ message: '' }).code;
       export const status: number | null = new QueueError('', null).status;`,
    );
    const options = ['--noEmit', '--strict', '--ignoreConfig', '--lib', 'es2022,dom', '--types', ''];
    const tsc = join(REPOSITORY, 'node_modules/.bin/tsc');
    const modules = ['--module', 'nodenext', '--target', 'es2022'];
    execFileSync(tsc, [...options, ...modules, 'typed.ts'], { cwd: app, encoding: 'utf8' });
  });
});
