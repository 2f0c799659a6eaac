import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RunningQueue, startConfiguredQueue } from '../../src/host/node/serve.ts';
import { readQueueSettings } from '../../src/host/node/settings.ts';
import { createLogger } from '../../src/process/index.ts';
import { writeHistory } from './history.ts';

/** A queue whose state is thrown away at its end. */
export interface OwnQueue {
  /** Without a trailing slash. */
  url: string;
  stop(): Promise<void>;
}

/** Starts a queue that has a made-up day of the demonstration's fleet behind it. Without tokens. */
export async function startDemoQueue(port: string): Promise<OwnQueue> {
  const stateDir = mkdtempSync(join(tmpdir(), 'demo-fleet-'));
  const settings = await readQueueSettings({ port, state: stateDir }, {});
  const logger = createLogger('queue', { LOG_LEVEL: 'error' });
  const start = () => startConfiguredQueue(settings, logger);
  const first = await start();
  await makeDatabase(first);
  await first.stop();
  writeHistory(stateDir);
  const queue = await start();
  return {
    url: queue.url,
    stop: async () => {
      await queue.stop();
      rmSync(stateDir, { recursive: true, force: true });
    },
  };
}

/** An object has one once it was called. */
async function makeDatabase({ url }: RunningQueue): Promise<void> {
  await (await fetch(`${url}/api/fleet`)).body?.cancel();
}
