import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bindingsOf, readQueueSettings } from '../../src/host/node/settings.ts';
import { createLogger } from '../../src/process/index.ts';
import { type RunningWorkerd, startWorkerd } from '../../src/workerd/process.ts';
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
  const start = () => startWorkerd({ ...settings, bindings: bindingsOf(settings), logger });
  const first = await start();
  await makeDatabase(first);
  await first.stop();
  writeHistory(stateDir);
  const workerd = await start();
  return {
    url: workerd.url,
    stop: async () => {
      await workerd.stop();
      rmSync(stateDir, { recursive: true, force: true });
    },
  };
}

/** An object has one once it was called. */
async function makeDatabase({ url }: RunningWorkerd): Promise<void> {
  await (await fetch(`${url}/api/fleet`)).body?.cancel();
}
