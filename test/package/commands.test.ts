import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { spansOf } from '../support/otlp.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import type { Child } from '../support/processes.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { stateFolder, tearDown } from '../support/road.ts';
import { installed } from './installed.ts';

/** The main way of every command, as it is published. */

const folder = stateFolder();
const run: string[] = [];
let queueUrl: string;
let token: string;
let collector: Receiver;

afterAll(async () => {
  await tearDown();
  await collector?.stop();
});

/** Starts a command against the queue, with the token of this test. */
function start(words: string, args: string[] = [], env: NodeJS.ProcessEnv = {}): Child {
  run.push(words);
  const road = {
    QUEUE_URL: queueUrl,
    CASOLA_API_TOKEN: token,
    WORKER_VLLM_STATE: folder,
    CASOLA_WS_URL: queueUrl?.replace('http', 'ws'),
    CASOLA_API_URL: queueUrl,
    CASOLA_CONFIG_ID: 'cfg',
  };
  return installed([...words.split(' '), ...args], { ...road, ...env });
}

/** What a command prints that ends by itself, with 0. */
async function printed(words: string, args: string[] = [], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const command = start(words, args, env);
  const { code } = await command.exited;
  expect(code, command.output()).toBe(0);
  return command.output();
}

async function end(command: Child): Promise<void> {
  command.kill('SIGTERM');
  expect((await command.exited).code, command.output()).toBe(0);
}

beforeAll(async () => {
  collector = await startReceiver();
  token = /\S{20,}/.exec(await printed('token', ['create', '--scope', 'admin', '--name', 'me']))![0];
  const port = await freePort();
  const alerts = { QUEUE_ALERT_URL: `${collector.url}/alerts` };
  const queue = start('queue', ['--port', String(port)], alerts);
  await queue.waitForLine(/listening at/);
  queueUrl = `http://127.0.0.1:${port}`;
});

it('simulate, supervise, health: a worker with its engine, its metrics and its spans', async () => {
  const [port, metricsPort] = [await freePort(), await freePort()];

  const container = {
    ENGINE: 'simulator',
    VLLM_MODEL: 'tiny',
    VLLM_PORT: String(port),
    WORKER_METRICS_PORT: String(metricsPort),
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_BSP_SCHEDULE_DELAY: '100',
    LOG_FORMAT: 'pretty',
  };
  expect(await printed('supervise', ['--print-command'], container)).toContain('tiny');
  const worker = start('supervise', [], { ...container, CASOLA_INSTANCE_ID: 'first' });
  await worker.waitForLine(/taking jobs/);
  expect(await printed('health', [], container)).toContain('healthy');
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  expect(metrics).toContain('worker_vllm_');
});

it('swap: two models on one GPU, one after the other', async () => {
  const files: string[] = [];
  for (const model of ['llama', 'qwen']) {
    const variables = [`VLLM_MODEL=${model}`, `VLLM_PORT=${await freePort()}`, 'ENGINE=simulator'];
    files.push(join(folder, `${model}.env`));
    writeFileSync(files.at(-1)!, variables.join('\n'));
  }
  const swap = start('swap', files);
  await until(() => (swap.output().match(/taking jobs/g)?.length ?? 0) >= 2, 'both take jobs');
  swap.kill('SIGTERM');
  expect((await swap.exited).code).toBe(0);
});

it('submit: one job, and a file of jobs', async () => {
  const answer = JSON.parse(await printed('submit', ['Say hello.', '--config-id', 'cfg']));
  expect(JSON.stringify(answer)).toContain('choices');
  const lines = [1, 2, 3].map(() => JSON.stringify({ messages: [{ role: 'user', content: 'Hi.' }] }));
  writeFileSync(join(folder, 'jobs.jsonl'), lines.join('\n'));
  await printed('submit', [join(folder, 'jobs.jsonl'), '--config-id', 'cfg']);
  expect(readFileSync(join(folder, 'jobs.results.jsonl'), 'utf8').trim().split('\n')).toHaveLength(3);
  await until(() => spansOf(collector).length > 0, 'the worker has exported spans');
});

it('simulate, work: a worker beside an engine that runs already', async () => {
  const port = await freePort();
  const simulator = start('simulate', ['other', '--port', String(port)]);
  await simulator.waitForLine(/startup complete/);
  const worker = start('work', [], {
    ENGINE_URL: `http://127.0.0.1:${port}`,
    CASOLA_CONFIG_ID: 'other',
    CASOLA_INSTANCE_ID: 'second',
  });
  await worker.waitForLine(/taking jobs/);
  expect(await printed('submit', ['Say hello.', '--config-id', 'other'])).toContain('choices');
  await end(worker);
});

it('batch: run, list, status, cancel', async () => {
  const body = { model: 'tiny', messages: [{ role: 'user', content: 'Hi.' }], max_tokens: 4 };
  const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body };
  const file = join(folder, 'in.jsonl');
  writeFileSync(file, JSON.stringify(line));
  await printed('batch run', [file]);
  expect(readFileSync(join(folder, 'in.output.jsonl'), 'utf8')).toContain('"custom_id":"a"');
  const id = /batch_\S+/.exec(await printed('batch list'))![0];
  expect(JSON.parse(await printed('batch status', [id]))).toMatchObject({ id, status: 'completed' });
  const cancel = start('batch cancel', [id]);
  await cancel.exited;
  expect(cancel.output()).toContain('completed');
});

it('gateway: the routes of its queue', async () => {
  const port = await freePort();
  const gateway = start('gateway', ['--queue', queueUrl, '--port', String(port)], { GATEWAY_TOKEN: token });
  await gateway.waitForLine(/listening at/);
  expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200);
  await end(gateway);
});

it('top: frames of the fleet', async () => {
  const top = start('top', ['--json']);
  await top.waitForLine(/"first"/);
  await end(top);
});

it('launcher and fleet: a worker starts and ends', async () => {
  const file = join(folder, 'fleet.yaml');
  writeFileSync(
    file,
    `providers: { here: { driver: process } }
pools:
  scaled: { engine: simulator, model: scaled, max: 1, env: { CASOLA_SHUTDOWN_GRACE_PERIOD: 1 }, machines: [{ provider: here }] }
`,
  );
  expect(await printed('fleet check', [file])).toContain('scaled');
  expect(await printed('launcher', [file, '--dry-run'])).toContain('scaled');
  const first = start('launcher', [file, '--id', 'box', '--state', join(folder, 'box')]);
  await until(async () => (await printed('fleet status')).includes('scaled'), 'the fleet is in force');
  await end(first);
  // Another launcher on the same machine goes on.
  const launcher = start('launcher', ['--id', 'box', '--state', join(folder, 'box')]);
  await launcher.waitForLine(/launcher starting/);
  await printed('fleet launch', ['scaled']);
  const state = async () => JSON.parse(await printed('fleet status', ['--json'])).launches[0]?.state;
  await until(async () => (await state()) === 'ready', 'its worker is ready', { everyMs: 1000 });
  expect(await printed('submit', ['Say hello.', '--config-id', 'scaled'])).toContain('choices');
  expect(await printed('fleet roll', ['scaled', '--dry-run'])).toContain('Would be done: scaled');
  await printed('fleet pause', ['scaled']);
  await printed('fleet resume', ['scaled']);
  await printed('fleet drain', ['scaled']);
  await until(async () => (await state()) === 'gone', 'it is gone', { everyMs: 1000 });
  await printed('fleet remove');
  await end(launcher);
});

it('usage: what was used, a row a day', async () => {
  expect(await printed('usage')).toMatch(/^kind,day,/m);
});

it('alerts: a receiver is listed and tested, and a mute is made and ended', async () => {
  const listed = await printed('alerts status', ['--json']);
  const [{ name }] = JSON.parse(listed).receivers;
  await printed('alerts test', [name]);
  expect(collector.posts.some(({ path }) => path === '/alerts')).toBe(true);
  await printed('alerts mute', ['--for', '1h', '--why', 'a test']);
  const { mutes } = JSON.parse(await printed('alerts status', ['--json']));
  await printed('alerts unmute', [mutes[0].id]);
});

it('state check: the folder is in order', async () => {
  expect(await printed('state check')).toContain(folder);
});

it('state backup and state restore: a copy, and a state folder made of it', async () => {
  const [copy, restored] = [join(folder, 'copy'), join(folder, 'restored')];
  expect(await printed('state backup', [copy])).toContain(copy);
  expect(await printed('state restore', [copy, '--state', restored])).toContain(restored);
});

it('up is in package.test.ts; there is no other command', async () => {
  const groups = await Promise.all(
    ['', 'alerts', 'batch', 'fleet', 'state'].map(async (group) => {
      const help = installed([...group.split(' ').filter(Boolean), '--help']);
      await help.exited;
      const listed = help
        .output()
        .split('Commands:\n')[1]!
        .matchAll(/^ {2}(\w+)/gm);
      return [...listed].map(([, name]) => `${group} ${name}`.trim());
    }),
  );
  const all = groups.flat().filter((name) => !/^(?:.*help|alerts|batch|fleet|state|up)$/.test(name));
  expect([...new Set(run)].sort()).toEqual(all.sort());
});
