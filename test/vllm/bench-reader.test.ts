import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ensureVllm } from '../../scripts/vllm/setup.ts';
import { roadTo } from '../support/odd-engine.ts';
import { tearDown } from '../support/road.ts';
import { silentEngine } from '../support/silent-engine.ts';

/** The reader of `vllm bench serve`, which strips whatever it reads at a time, over an engine that is silent for seconds. */
const engine = silentEngine({ ids: false, silentMs: 3500 });
let url: string;

beforeAll(async () => {
  url = await roadTo(engine);
});
afterAll(async () => {
  await tearDown();
  engine.close();
});

it('it reads all of a stream with the comments of the road', async () => {
  const vllm = await ensureVllm();
  const python = join(dirname(vllm.vllmCommand), 'python');
  const { stdout } = await promisify(execFile)(python, [join(import.meta.dirname, 'bench_reader.py'), url], {
    env: { ...process.env, ...vllm.env, NO_PROXY: '*', no_proxy: '*' },
  });
  const read = JSON.parse(stdout.trim().split('\n').at(-1)!) as object;
  expect(read).toEqual({ success: true, text: 'one two three', error: '' });
});
