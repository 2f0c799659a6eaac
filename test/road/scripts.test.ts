import { readFileSync } from 'node:fs';
import { afterAll, expect, it } from 'vitest';
import { startProcess, stopAllProcesses } from '../support/processes.ts';

/** What is typed before the options of each program that takes some, in a checkout. */
const CALLS = ['simulate', 'planted-bugs', 'soak', 'move', 'bench']
  .map((script) => `npm run ${script} --`)
  .concat(
    ['simulate-fleet', 'simulate-runpod', 'simulate-sharing', 'fuzz-frames', 'abuse', 'demo-fleet']
      .concat('screenshots', 'kill-responses')
      .map((name) => `node scripts/${name}.ts`),
    ['compare', 'drain', 'first-job', 'prefill', 'prefixes', 'runpod', 'table'].map(
      (name) => `node bench/${name}.ts`,
    ),
  );
const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> };

afterAll(stopAllProcesses);

async function run(call: string, ...args: string[]) {
  const [, script] = /^npm run (\S+) --$/.exec(call) ?? [];
  const [program = '', ...before] = (script ? scripts[script]! : call).split(' ');
  const child = startProcess(program, [...before, ...args]);
  const { code } = await child.exited;
  return { code, output: child.output() };
}

it('tell their options', async () => {
  const { code, output } = await run('npm run simulate --', '--help');
  expect(output).toMatch(/^Usage: npm run simulate -- \[options\]/);
  expect(output).toContain('--seeds <count>');
  expect(code).toBe(0);
});

it.each(CALLS)('"%s" ends with 2 and one message where an option is unknown', async (call) => {
  const { code, output } = await run(call, '--no-such-option');
  expect(output).toBe(`error: unknown option '--no-such-option'\n${call} --help tells the options.\n`);
  expect(code).toBe(2);
});

it('the walk, which imports no package, does so too', async () => {
  const usage =
    'Usage: node walk.ts [command, unless it is the one of this checkout] [its first arguments]\n';
  expect(await run('node scripts/walk.ts', '--help')).toEqual({ code: 0, output: usage });
  const { code, output } = await run('node scripts/walk.ts', '--no-such-option');
  expect(output).toMatch(/^error: Unknown option '--no-such-option'.*\nUsage: .*\n$/);
  expect(code).toBe(2);
});
