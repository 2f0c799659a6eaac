import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, inject, it } from 'vitest';
import { freePort } from '../support/ports.ts';
import { startProcess } from '../support/processes.ts';
import { stateFolder, tearDown } from '../support/road.ts';
import { installed } from './installed.ts';

const app = inject('app');

afterAll(tearDown);

describe('the published package', () => {
  it('has the command, what it runs, the types of its exports and the documents, and nothing else', () => {
    const expected = [
      /^(?:README\.md|LICENSE|CHANGELOG\.md|llms\.txt|package\.json)$/,
      /^docs\/(?:decisions\/)?[\w-]+\.md$/,
      /^bin\/worker-vllm\.js$/,
      /^dist\/[\w/-]+\.js(?:\.map)?$/,
      /^dist\/programs\/(?:licenses\.txt|dashboard\.bin)$/,
      /^dist\/(?:client|protocol)\/[\w-]+\.d\.ts$/,
    ];
    const contents = inject('published');
    expect(contents.filter((path) => !expected.some((pattern) => pattern.test(path)))).toEqual([]);
    for (const name of ['cli', 'worker', 'supervisor', 'simulator']) {
      expect(contents).toContain(`dist/programs/${name}.js`);
    }
    const pages = [...readFileSync('llms.txt', 'utf8').matchAll(/\]\(([^)]+)\)/g)].map(([, path]) => path!);
    expect(pages.filter((path) => !contents.includes(path))).toEqual([]);
    expect(contents).toContain('dist/client/index.d.ts');
    expect(contents).toContain('dist/programs/dashboard.bin');
  });

  it('serves queue, worker and simulator, and its client submits a job to them', async () => {
    const port = await freePort();
    const road = installed(['up', '--port', String(port), '--state', stateFolder()]);
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
    const tsc = join(import.meta.dirname, '../../node_modules/.bin/tsc');
    const modules = ['--module', 'nodenext', '--target', 'es2022'];
    execFileSync(tsc, [...options, ...modules, 'typed.ts'], { cwd: app, encoding: 'utf8' });
  });
});
