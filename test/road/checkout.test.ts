import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findOldNode } from '../support/old-node.ts';
import { until } from '../support/poll.ts';
import { startProcess, stopAllProcesses } from '../support/processes.ts';
import { cleanEnvironment, processesWith } from '../support/road.ts';

/** A checkout as it is edited: its programs are built when its sources have changed. */
const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));
const NEEDED = [
  'bin',
  'src',
  'scripts/programs.ts',
  'scripts/fingerprint.js',
  'package.json',
  'package-lock.json',
];

const oldNode = findOldNode();
let checkout: string;

beforeAll(() => {
  checkout = mkdtempSync(join(tmpdir(), 'checkout-'));
  for (const path of NEEDED) cpSync(join(REPOSITORY, path), join(checkout, path), { recursive: true });
  symlinkSync(join(REPOSITORY, 'node_modules'), join(checkout, 'node_modules'));
});
afterAll(async () => {
  await stopAllProcesses();
  rmSync(checkout, { recursive: true, force: true });
});

async function run(args: string[], node = process.execPath, env: NodeJS.ProcessEnv = {}) {
  const command = startProcess(node, [join(checkout, 'bin/worker-vllm.js'), ...args], {
    env: cleanEnvironment(env),
    cwd: tmpdir(),
  });
  const { code } = await command.exited;
  return { code, output: command.output() };
}

function parentOf(pid: number): number {
  try {
    return Number(/PPid:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
  } catch {
    // It ended meanwhile.
    return 0;
  }
}

function edit(path: string, from: string, to: string): void {
  const file = join(checkout, path);
  const text = readFileSync(file, 'utf8');
  expect(text, `${path} has what is to be edited`).toContain(from);
  writeFileSync(file, text.replace(from, to));
}

describe('a checkout', () => {
  it('builds its programs at the first start, also when several start at once', async () => {
    const starts = await Promise.all([run(['--help']), run(['--help']), run(['submit', '--help'])]);
    for (const { code, output } of starts) expect({ code, output }).toMatchObject({ code: 0 });
    // The first line, since a build takes half a minute on a slow machine.
    expect(starts[0]!.output).toMatch(/^Building worker-vllm from its sources.*\nBuilt in \d+ s\.\n/);
    expect(readdirSync(join(checkout, 'dist/programs'))).toEqual(
      expect.arrayContaining(['cli.js', 'simulator.js', 'supervisor.js', 'worker.js']),
    );
  });

  it.skipIf(!oldNode)('starts on a Node that is too old for it, by the one that came along', async () => {
    expect(await run(['--help'], oldNode!)).toMatchObject({
      code: 0,
      output: expect.stringContaining('Usage: worker-vllm'),
    });
  });

  it('runs what was edited at the next start', async () => {
    edit(
      'src/cli.ts',
      'Examine the state folder of a queue, copy it while the queue runs, and restore a copy.',
      'An edited description.',
    );
    expect((await run(['--help'])).output).toContain('An edited description.');
  });

  it('leaves no helper of the build behind in a process that goes on', async () => {
    edit('src/cli.ts', 'An edited description.', 'Edited again.');
    const queue = startProcess(
      process.execPath,
      [join(checkout, 'bin/worker-vllm.js'), 'queue', '--port', '0'],
      {
        env: cleanEnvironment({ WORKER_VLLM_STATE: join(checkout, 'state') }),
      },
    );
    // A build comes before that.
    await queue.waitForLine(/listening at/, 120_000);
    await until(
      async () => (await processesWith('esbuild')).every((pid) => parentOf(pid) !== queue.pid),
      'none is left',
    );
    await queue.stop();
  });

  it('names sources in its stacks', async () => {
    const source = readFileSync(join(checkout, 'src/commands/tokens/commands.ts'), 'utf8');
    const first = /^.* = options;$/m.exec(source)![0];
    edit('src/commands/tokens/commands.ts', first, `${first}\n  if (scope) throw new Error('planted');`);
    const { output } = await run(['token', 'create', '--scope', 'read'], process.execPath, {
      LOG_LEVEL: 'debug',
    });
    expect(output).toMatch(/Error: planted\n +at .*src\/commands\/tokens\/commands\.ts:\d+:\d+/);
  });
});
