import { afterEach, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { groupLives, startProcess, stopAllProcesses } from '../support/processes.ts';

const WATCHDOG = new URL('../../src/process/child.ts', import.meta.url).href;

/** Starts groups under a watchdog, prints their ids, and stays. */
function owner(body: string): string {
  return `
    import { spawn } from 'node:child_process';
    import { startWatchdog } from ${JSON.stringify(WATCHDOG)};
    const watchdog = startWatchdog();
    const group = (script) => spawn('/bin/sh', ['-c', script], { detached: true, stdio: 'ignore' }).pid;
    ${body}
  `;
}

const STUBBORN = `trap "" TERM; while :; do sleep 1; done`;

const orphans: number[] = [];
afterEach(async () => {
  await stopAllProcesses();
  for (const group of orphans.splice(0)) if (groupLives(group)) process.kill(-group, 'SIGKILL');
});

async function start(body: string) {
  const child = startProcess(process.execPath, ['--input-type=module-typescript', '-e', owner(body)]);
  const line = await child.waitForLine(/^groups /);
  const groups = line.split(' ').slice(1).map(Number);
  orphans.push(...groups);
  expect(groups.every(groupLives)).toBe(true);
  return { child, groups };
}

describe('the watchdog', () => {
  it('ends the groups of an owner that was killed, stubborn ones too', async () => {
    const { child, groups } = await start(`
      const groups = [group('sleep 1000'), group(${JSON.stringify(STUBBORN)}), group('sleep 1000 & sleep 1000')];
      watchdog.watch(groups[0]); watchdog.watch(groups[1], 1); watchdog.watch(groups[2], 0);
      console.log('groups', ...groups); setInterval(() => {}, 1000);
    `);
    child.kill('SIGKILL');
    await until(() => !groups.some(groupLives), 'no watched group is left');
  });

  it('leaves alone what it was told to forget', async () => {
    const { child, groups } = await start(`
      const groups = [group('sleep 1000'), group('sleep 1000')];
      for (const id of groups) watchdog.watch(id, 0);
      watchdog.forget(groups[1]);
      console.log('groups', ...groups); setInterval(() => {}, 1000);
    `);
    child.kill('SIGKILL');
    await until(() => !groupLives(groups[0] as number), 'the watched group is gone');
    expect(groupLives(groups[1] as number)).toBe(true);
  });

  it('does not keep its owner alive', async () => {
    const child = startProcess(process.execPath, ['--input-type=module-typescript', '-e', owner('')]);
    expect(await child.exited).toEqual({ code: 0, signal: null });
  });
});
