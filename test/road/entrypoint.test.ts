import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { type Child, startProcess, stopAllProcesses } from '../support/processes.ts';

const ENTRYPOINT = fileURLToPath(new URL('../../entrypoint.sh', import.meta.url));
/** A container's view: the first process of a PID namespace, where orphans fall to it. */
const NAMESPACE = ['--pid', '--fork', '--mount-proc'];
const canUnshare = spawnSync('unshare', [...NAMESPACE, 'true']).status === 0;

/** Stands in for the command: leaves an orphan, shows the zombies, says what signals it gets. */
const COMMAND = `
import { execFileSync, execSync } from 'node:child_process';
console.log('arguments ' + process.argv.slice(2).join(' '));
execFileSync('sh', ['-c', 'sleep 0.1 >/dev/null 2>&1 & true']);
process.on('SIGTERM', () => { console.log('got SIGTERM'); setTimeout(() => process.exit(7), 300); });
process.on('SIGINT', () => process.exit(8));
setInterval(() => {
  const states = execSync('cat /proc/[0-9]*/stat 2>/dev/null | sed "s/.*) //" | cut -c1; true').toString();
  const sleeps = execSync('cat /proc/[0-9]*/comm 2>/dev/null; true').toString().split('\\n').filter((c) => c === 'sleep');
  console.log('zombies ' + states.split('\\n').filter((s) => s === 'Z').length + ' orphans ' + sleeps.length);
}, 100);
`;

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'entrypoint-'));
  mkdirSync(join(root, 'bin'));
  copyFileSync(ENTRYPOINT, join(root, 'entrypoint.sh'));
  writeFileSync(join(root, 'package.json'), '{"type":"module"}');
  writeFileSync(join(root, 'bin/worker-vllm.js'), COMMAND);
});
afterEach(async () => {
  await stopAllProcesses();
  rmSync(root, { recursive: true, force: true });
});

describe("the container's entry", () => {
  it('becomes the command where it is not PID 1', async () => {
    const entry = startProcess(join(root, 'entrypoint.sh'), ['--flag'], { env: environment() });
    await entry.waitForLine(/arguments supervise --flag/);
    await entry.waitForLine(/zombies/);
    entry.kill('SIGTERM');
    expect(await entry.exited).toEqual({ code: 7, signal: null });
  });

  it.skipIf(!canUnshare)(
    'as PID 1 reaps orphans, forwards signals and ends with the code of the command',
    async () => {
      const container = startProcess('unshare', [...NAMESPACE, join(root, 'entrypoint.sh')], {
        env: environment(),
      });
      await container.waitForLine(/zombies 0 orphans 0/);
      const init = await until(() => childOf(container), 'the namespace has its first process');
      process.kill(init, 'SIGTERM');
      await container.waitForLine(/got SIGTERM/);
      expect((await container.exited).code).toBe(7);
    },
  );

  it.skipIf(!canUnshare)('as PID 1 forwards SIGINT', async () => {
    const container = startProcess('unshare', [...NAMESPACE, join(root, 'entrypoint.sh')], {
      env: environment(),
    });
    await container.waitForLine(/zombies/);
    const init = await until(() => childOf(container), 'the namespace has its first process');
    process.kill(init, 'SIGINT');
    expect((await container.exited).code).toBe(8);
  });
});

function environment(): NodeJS.ProcessEnv {
  return { PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
}

function childOf(parent: Child): number {
  return Number(readFileSync(`/proc/${parent.pid}/task/${parent.pid}/children`, 'utf8').trim());
}
