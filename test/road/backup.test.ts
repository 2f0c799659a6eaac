import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI, { toFile } from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import {
  chatJob,
  cli,
  job,
  killQueue,
  type QueueProcess,
  readyWorker,
  settled,
  startQueue,
  stateFolder,
  submit,
  tearDown,
} from '../support/road.ts';

/** `worker-vllm state backup` of a queue that runs, and `state restore`. */
let queue: QueueProcess;

const SLOTS = { engineArgs: '--inter-token-latency-ms 2', env: { CASOLA_MAX_JOBS: '4' } };
const LINES = 60;
/** So large a payload lies in a file, beside the database of the queue. */
const LARGE = 'x'.repeat(1024 * 1024);

beforeAll(async () => {
  queue = await startQueue();
  await readyWorker(queue.url, 'before', SLOTS);
});
afterAll(tearDown);

const client = (url: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });

async function startBatch(): Promise<string> {
  const texts = Array.from({ length: LINES }, (_, n) => {
    const body = { model: 'tiny', messages: [{ role: 'user', content: `line ${n}` }], max_tokens: 8 };
    return JSON.stringify({ custom_id: `line-${n}`, method: 'POST', url: '/v1/chat/completions', body });
  });
  const file = await toFile(new TextEncoder().encode(texts.join('\n')), 'in.jsonl');
  const { files, batches } = client(queue.url);
  const { id } = await files.create({ file, purpose: 'batch' });
  const made = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' } as const;
  return (await batches.create(made)).id;
}

/** Submits jobs, small and large, as fast as they are taken, until it is told to end. */
function load() {
  const acknowledged: string[] = [];
  let isOver = false;
  const submitter = async (name: string) => {
    for (let n = 0; !isOver; n++) {
      const id = `${name}-${n}`;
      const user = n % 10 === 3 ? LARGE : 'small';
      const payload = { messages: [{ role: 'user', content: id }], user, max_tokens: 4, ignore_eos: true };
      await submit(queue.url, { ...chatJob(4), id, payload });
      acknowledged.push(id);
    }
  };
  const all = Promise.all(['a', 'b', 'c'].map(submitter));
  // A test that has failed before it ends the load has said why.
  all.catch(() => {});
  const end = () => {
    isOver = true;
    return all;
  };
  return { acknowledged, end };
}

async function run(...args: string[]) {
  const command = cli(['state', ...args]);
  const { code } = await command.exited;
  return { code, said: command.output() };
}

/** A folder that `state …` was killed in the middle of: as soon as the path is there. It may be faster: then once more. */
async function killedWhile(
  args: (folder: string) => string[],
  path: string,
  isHalf: (found: string[]) => boolean,
): Promise<string> {
  return await until(async () => {
    const folder = newFolder();
    const command = cli(['state', ...args(folder)]);
    await until(() => existsSync(join(folder, path)), `${path} is there`, { everyMs: 0 });
    command.kill('SIGKILL');
    await command.exited;
    return isHalf(readdirSync(folder)) ? folder : null;
  }, 'one was killed in the middle');
}

const newFolder = () => join(stateFolder(), 'folder');

describe('a backup of a queue that works', () => {
  it('has every job that was acknowledged before it, with its result, and the batch that ran', async () => {
    const batch = await startBatch();
    const { acknowledged, end } = load();
    await until(() => acknowledged.length > 100, 'some jobs are there');
    const results = new Map<string, JobView>();
    for (const id of acknowledged.slice(0, 5)) results.set(id, await settled(queue.url, id));
    const before = [...acknowledged];
    const [folder, state] = [newFolder(), newFolder()];
    const taken = await run('backup', folder, '--state', queue.stateDir);
    expect(taken).toMatchObject({ code: 0, said: expect.stringMatching(/as of \S+Z; jobs: .*succeeded/) });
    await end();
    expect(acknowledged.length).toBeGreaterThan(before.length);

    expect(await run('restore', folder, '--state', state)).toMatchObject({ code: 0 });
    const restored = await startQueue({ stateDir: state });
    for (const [id, { result }] of results) expect((await job(restored.url, id)).result).toEqual(result);
    await readyWorker(restored.url, 'after', SLOTS);
    for (const id of before)
      expect(await settled(restored.url, id)).toMatchObject({ id, state: 'succeeded' });
    const { batches, files } = client(restored.url);
    const done = await until(
      async () => {
        const view = await batches.retrieve(batch);
        return view.status === 'completed' ? view : null;
      },
      'the batch is complete',
      { timeoutMs: 120_000 },
    );
    const lines = (await (await files.content(done.output_file_id!)).text()).trim().split('\n');
    const ids = lines.map((line) => (JSON.parse(line) as { custom_id: string }).custom_id);
    expect(new Set(ids).size).toBe(LINES);
    expect(ids).toHaveLength(LINES);
    expect(await run('check', '--state', state)).toMatchObject({ code: 0 });
    await restored.process.stop();
  }, 300_000);

  it('that is killed in the middle is known for half a one, and refused', async () => {
    const folder = await killedWhile(
      (to) => ['backup', to, '--state', queue.stateDir],
      'data/vllm-queue',
      (found) => !found.includes('backup.json'),
    );
    const state = newFolder();
    const restored = await run('restore', folder, '--state', state);
    expect(restored).toMatchObject({ code: 11, said: expect.stringContaining('is not a whole backup') });
    expect(existsSync(state)).toBe(false);
    const again = await run('backup', folder, '--state', queue.stateDir);
    expect(again).toMatchObject({ code: 2, said: expect.stringContaining('was ended before it was done') });
  });

  it('may begin before the queue is killed and starts again', async () => {
    const folder = newFolder();
    const command = cli(['state', 'backup', folder, '--state', queue.stateDir]);
    await until(() => existsSync(join(folder, 'data')), 'it copies', { everyMs: 0 });
    await killQueue(queue);
    queue = await startQueue({ port: queue.port, stateDir: queue.stateDir });
    expect((await command.exited).code).toBe(0);
    expect(await run('restore', folder, '--state', newFolder())).toMatchObject({ code: 0 });
  });
});

describe('a restore', () => {
  it('that is killed in the middle leaves a folder that no queue starts on', async () => {
    const folder = newFolder();
    expect(await run('backup', folder, '--state', queue.stateDir)).toMatchObject({ code: 0 });
    const state = await killedWhile(
      (to) => ['restore', folder, '--state', to],
      'data/vllm-queue',
      (found) => found.includes('restoring'),
    );
    const started = cli(['queue', '--port', '0', '--state', state]);
    expect(await started.exited).toMatchObject({ code: 11 });
    expect(started.output()).toContain('was ended before it was done');
    expect(await run('check', '--state', state)).toMatchObject({ code: 11 });
    const again = await run('restore', folder, '--state', state);
    expect(again).toMatchObject({ code: 2, said: expect.stringContaining('empty the folder') });
  });

  it('overwrites nothing', async () => {
    const folder = newFolder();
    expect(await run('backup', folder, '--state', queue.stateDir)).toMatchObject({ code: 0 });
    const refused = await run('restore', folder, '--state', queue.stateDir);
    expect(refused).toMatchObject({ code: 2, said: expect.stringContaining('nothing in it is overwritten') });
  });
});
