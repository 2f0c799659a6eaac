import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const HEAP_BOUND = fileURLToPath(new URL('../../../../src/host/node/heap-bound.ts', import.meta.url));

/** Turns of the loop whose objects live for some turns, as those of requests do; prints the young generation, MB. */
const BUSY = `
  import { getHeapSpaceStatistics } from 'node:v8';
  const { boundHeap } = await import(process.argv[1]);
  const end = process.argv[2] === 'bounded' ? boundHeap() : () => {};
  const kept = [];
  for (let turn = 0; turn < 600; turn++) {
    for (let n = 0; n < 10_000; n++) kept[(turn * 10_000 + n) % 600_000] = { n, more: [n] };
    await new Promise(setImmediate);
  }
  end();
  const young = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
  console.log(young.space_size / 2 ** 20);
`;

async function youngMegabytes(mode: 'bounded' | 'as it is'): Promise<number> {
  const program = ['--input-type=module', '--eval', BUSY, HEAP_BOUND, mode];
  const { stdout } = await promisify(execFile)(process.execPath, program);
  return Number(stdout);
}

it('bounds the young generation of a busy process, which V8 by itself lets grow on', async () => {
  // On a busy machine V8 may double it once more before the process looks at it.
  const bounded = await youngMegabytes('bounded');
  expect(await youngMegabytes('as it is')).toBeGreaterThanOrEqual(2 * bounded);
});
