import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { EXIT } from '../../../src/process/exit-codes.ts';

const RUN_MAIN = join(import.meta.dirname, '../../../src/process/run-main.ts');
const PROGRAM = `
import { UserError } from ${JSON.stringify(RUN_MAIN.replace('run-main', 'exit-codes'))};
import { runMain } from ${JSON.stringify(RUN_MAIN)};
function fail(how: string): never {
  if (how === 'mistake') throw new UserError('set MODEL to a name', 2);
  if (how === 'text') throw 'no error at all';
  throw new Error('a defect');
}
const [, , when, how] = process.argv;
await runMain(async () => {
  if (when === 'at once') fail(how);
  setTimeout(() => fail(how), 1);
  return await new Promise<number>((resolve) => setTimeout(() => resolve(0), 60_000));
});
`;

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'worker-vllm-stack-'));
  writeFileSync(join(folder, 'program.ts'), PROGRAM);
  await build({
    entryPoints: [join(folder, 'program.ts')],
    outfile: join(folder, 'bundle/program.js'),
    bundle: true,
    minifyWhitespace: true,
    format: 'esm',
    platform: 'node',
    sourcemap: true,
  });
});
afterAll(() => rmSync(folder, { recursive: true }));

test.each([
  ['at once', 'defect', EXIT.unexpected, /^Error: a defect\n {4}at fail \(\S+\/program\.ts:7:9\)\n/],
  ['later', 'defect', EXIT.unexpected, /^Error: a defect\n {4}at fail \(\S+\/program\.ts:7:9\)\n/],
  ['later', 'text', EXIT.unexpected, /^thrown: no error at all\n$/],
  ['at once', 'mistake', 2, /^set MODEL to a name\n$/],
  ['later', 'mistake', 2, /^set MODEL to a name\n$/],
])('a bundled program that throws %s: %s', async (when, how, code, printed) => {
  const run = promiseOf([join(folder, 'bundle/program.js'), when, how]);
  expect(await run).toEqual({ code, stderr: expect.stringMatching(printed) });
});

function promiseOf(args: string[]): Promise<{ code: unknown; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, args, (error, _stdout, stderr) => resolve({ code: error?.code ?? 0, stderr }));
  });
}
