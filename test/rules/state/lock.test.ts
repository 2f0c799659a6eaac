import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { lockState, makeFolder } from '../../../src/state/folder.ts';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'state-lock-'));
});
afterEach(() => rm(root, { recursive: true }));

async function stateFolder(path = 'state'): Promise<string> {
  const folder = join(root, path);
  await makeFolder(join(folder, 'data'));
  return folder;
}

const MODULE = new URL('../../../src/state/folder.ts', import.meta.url).href;

/** A process that locks the folder until it is killed. */
async function otherProcess(folder: string, env: NodeJS.ProcessEnv = {}) {
  const program = `const { lockState } = await import(${JSON.stringify(MODULE)});
    try {
      const lock = await lockState(${JSON.stringify(folder)});
      process.stdout.write('locked');
      setInterval(() => lock, 1000);
    } catch (error) {
      process.stdout.write(error.message);
    }`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [said] = await once(child.stdout, 'data');
  return { child, said: String(said) };
}

describe('the lock of a state folder', () => {
  it('keeps a second process out, and names the one that has it', async () => {
    const folder = await stateFolder();
    const lock = await lockState(folder);
    await expect(lockState(folder)).rejects.toThrow(/in use by another worker-vllm/);
    const other = await otherProcess(folder, { TMPDIR: root });
    expect(other.said).toContain(`in use by another worker-vllm (process ${process.pid})`);
    lock.release();
    (await lockState(folder)).release();
  });

  it('holds whatever the length of the path and wherever temporary files go', async () => {
    const folder = await stateFolder(join('a'.repeat(90), 'b'.repeat(90), 'c'.repeat(90)));
    const elsewhere = join(root, 'tmp');
    await mkdir(elsewhere);
    const lock = await lockState(folder);
    const { said } = await otherProcess(folder, { TMPDIR: elsewhere });
    expect(said).toContain(`process ${process.pid}`);
    lock.release();
  });

  it('holds the folder that it was taken in, and none that comes in its place', async () => {
    const folder = await stateFolder();
    const lock = await lockState(folder);
    expect(await lock.holds()).toBe(true);
    await rm(folder, { recursive: true });
    expect(await lock.holds()).toBe(false);
    await stateFolder();
    const other = await lockState(folder);
    expect([await lock.holds(), await other.holds()]).toEqual([false, true]);
    lock.release();
    other.release();
  });

  it('is free as soon as its holder is killed', async () => {
    const folder = await stateFolder();
    const { child, said } = await otherProcess(folder);
    expect(said).toBe('locked');
    child.kill('SIGKILL');
    await once(child, 'exit');
    (await lockState(folder)).release();
    expect((await readdir(folder)).sort()).toEqual(['data', 'lock', 'lock.pids']);
  });
});
