import { readFileSync } from 'node:fs';
import { afterAll, expect, it } from 'vitest';
import { startProcess, stopAllProcesses } from '../support/processes.ts';

/** The scripts of package.json that take options, in a checkout. */
const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> };
const WITH_OPTIONS = ['simulate', 'simulate:fleet', 'simulate:runpod', 'simulate:sharing']
  .concat('planted-bugs', 'fuzz', 'soak', 'abuse', 'demo-fleet', 'move')
  .concat('bench', 'bench:compare', 'bench:drain', 'bench:first-job', 'bench:optimisations')
  .concat('bench:prefill', 'bench:prefixes', 'bench:runpod', 'bench:table');

afterAll(stopAllProcesses);

async function run(script: string, ...args: string[]) {
  const [program = '', ...before] = scripts[script]!.split(' ');
  const child = startProcess(program, [...before, ...args]);
  const { code } = await child.exited;
  return { code, output: child.output() };
}

it('tell their options', async () => {
  const { code, output } = await run('simulate', '--help');
  expect(output).toMatch(/^Usage: npm run simulate -- \[options\]/);
  expect(output).toContain('--seeds <count>');
  expect(code).toBe(0);
});

it.each(WITH_OPTIONS)('npm run %s ends with 2 and one message where an option is unknown', async (script) => {
  const { code, output } = await run(script, '--no-such-option');
  expect(output).toBe(
    `error: unknown option '--no-such-option'\nnpm run ${script} -- --help tells the options.\n`,
  );
  expect(code).toBe(2);
});
