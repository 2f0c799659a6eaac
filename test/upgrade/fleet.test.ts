import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import type { LaunchRow } from '../../src/protocol/index.ts';
import { fleetView, isAlive, printed, startLauncher, writeFleet } from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import { stopAllProcesses } from '../support/processes.ts';
import { processesWith, startQueue, stateFolder, tearDown } from '../support/road.ts';
import { before, today } from './versions.ts';

/** Fleets whose queue and launcher are upgraded while their workers run. */
afterEach(stopAllProcesses);
afterAll(tearDown);

const SLOW = { timeoutMs: 90_000, everyMs: 100 };

const ready = async (url: string): Promise<LaunchRow[]> =>
  (await fleetView(url)).launches.filter(({ state }) => state === 'ready');

const untilReady = (url: string, count: number) =>
  until(
    async () => {
      const rows = await ready(url);
      return rows.length === count ? rows : null;
    },
    `${count} workers are ready`,
    SLOW,
  );

async function ask(url: string): Promise<number> {
  const body = { model: 'tiny', max_tokens: 5, messages: [{ role: 'user', content: 'Hello.' }] };
  const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify(body) });
  await response.text();
  return response.status;
}

describe('the fleet of a queue that is upgraded', () => {
  it('keeps its workers over the upgrades of queue and launcher, starts more and ends all', async () => {
    const path = join(stateFolder(), 'fleet.yaml');
    writeFleet(path, { pools: { demo: { min: 1, max: 2 } } });
    const old = await startQueue({ program: before.program });
    const launcher = startLauncher(old.url, path, undefined, before.program);
    const [first] = await untilReady(old.url, 1);

    await old.process.stop();
    const { url } = await startQueue({ stateDir: old.stateDir, port: old.port });
    await until(async () => (await ask(url)) === 200, 'its worker answers', SLOW);
    // The launcher of the version before goes on with what was launched.
    writeFleet(path, { pools: { demo: { min: 2, max: 2 } } });
    expect((await untilReady(url, 2)).map(({ id }) => id)).toContain(first!.id);

    await launcher.process.stop();
    writeFleet(path, { pools: { demo: { min: 3, max: 3 } } });
    const { stateDir } = startLauncher(url, path, launcher.stateDir, today.program);
    expect((await untilReady(url, 3)).map(({ id }) => id)).toContain(first!.id);
    expect((await fleetView(url)).launches.filter((row) => !isAlive(row))).toEqual([]);
    await printed(['fleet', 'remove', '--url', url]);
    await until(
      async () => (await processesWith(join(stateDir, 'processes'))).length === 0,
      'no worker is left',
      SLOW,
    );
  });
});
