import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { findOldNode } from '../support/old-node.ts';
import { until } from '../support/poll.ts';
import { startProcess, stopAllProcesses } from '../support/processes.ts';
import { processesWith } from '../support/road.ts';

const BIN = fileURLToPath(new URL('../../bin/worker-vllm.js', import.meta.url));
const NODE_PACKAGE = fileURLToPath(new URL('../../node_modules/node', import.meta.url));

const oldNode = findOldNode();

const COMMAND = `
const args = process.argv.slice(2);
process.on('SIGTERM', () => process.exit(7));
console.log('arguments', ...args, 'signals wait');
if (args[0] === 'exit') process.exit(Number(args[1]));
if (args[0] === 'killed') process.kill(process.pid, 'SIGKILL');
setInterval(() => {}, 1000);
`;

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'bin-'));
  for (const folder of ['bin', 'dist/programs', 'node_modules']) {
    mkdirSync(join(root, folder), { recursive: true });
  }
  copyFileSync(BIN, join(root, 'bin/worker-vllm.js'));
  symlinkSync(NODE_PACKAGE, join(root, 'node_modules/node'));
  writeFileSync(join(root, 'package.json'), '{"type":"module"}');
  writeFileSync(join(root, 'dist/programs/cli.js'), COMMAND);
});
afterEach(async () => {
  await stopAllProcesses();
  rmSync(root, { recursive: true, force: true });
});

describe.each([
  ['a current Node', process.execPath],
  ['an old Node', oldNode],
])('the command on %s', (_, node) => {
  it.skipIf(!node)('runs with its arguments and ends with its code', () => {
    const ended = spawnSync(node!, [join(root, 'bin/worker-vllm.js'), 'exit', '3'], { encoding: 'utf8' });
    expect(ended.stdout).toContain('arguments exit 3');
    expect(ended.stderr).toBe('');
    expect(ended.status).toBe(3);
  });

  it.skipIf(!node)('hands on SIGTERM', async () => {
    const command = startProcess(node!, [join(root, 'bin/worker-vllm.js')]);
    await command.waitForLine(/signals wait/);
    command.kill('SIGTERM');
    expect((await command.exited).code).toBe(7);
  });
});

describe.each([
  ['a current Node', process.execPath],
  ['an old Node', oldNode],
])('npx on %s', (_, node) => {
  it.skipIf(!node)('ends the command with it when it gets a SIGTERM', async () => {
    // The shell between npx and the command, as npx starts it.
    const shell = `"${node}" "${join(root, 'bin/worker-vllm.js')}"; true`;
    const npx = startProcess('sh', ['-c', shell], { env: { ...process.env, npm_command: 'exec' } });
    await npx.waitForLine(/signals wait/);
    npx.kill('SIGTERM');
    await until(async () => (await processesWith(root)).length === 0, 'nothing is left');
  });
});

describe.skipIf(!oldNode)('the command on an old Node', () => {
  it('ends with 128 + n when signal n ended it', () => {
    expect(spawnSync(oldNode!, [join(root, 'bin/worker-vllm.js'), 'killed']).status).toBe(137);
  });

  it('says in one line what to do when no newer Node came along', () => {
    rmSync(join(root, 'node_modules/node'));
    const ended = spawnSync(oldNode!, [join(root, 'bin/worker-vllm.js')], { encoding: 'utf8' });
    expect(ended.status).toBe(2);
    expect(ended.stderr.trim().split('\n')).toEqual([expect.stringContaining('npm ci')]);
    const needed = manifest.engines.node.replace('>=', 'needs Node ');
    expect(ended.stderr).toContain(`${needed} or later`);
  });
});
