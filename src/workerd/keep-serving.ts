import { setTimeout as sleep } from 'node:timers/promises';
import { descriptorLimit, exhaustedText } from './descriptors.ts';
import { type RunningWorkerd, startWorkerd, type WorkerdExit, type WorkerdOptions } from './process.ts';

/** Between the end and the next start, so that a crowd that stays does not make this a busy loop, ms. */
const PAUSE_MS = 1000;

/**
 * `startWorkerd`, and once more at the same port each time that it has run out of descriptors: that is the doing of
 * whoever connects, not a fault that a second start would meet again.
 * @returns the queue as if it were one process; `exited` is the end that is not followed by a start
 */
export async function keepServing(options: WorkerdOptions): Promise<RunningWorkerd> {
  let current = await startWorkerd(options);
  let isStopping = false;
  const { url, port } = current;

  async function untilTheEnd(): Promise<WorkerdExit> {
    for (;;) {
      const exit = await current.exited;
      if (!exit.outOfDescriptors || isStopping) return exit;
      options.logger?.error(exhaustedText(descriptorLimit()));
      await sleep(PAUSE_MS);
      if (isStopping) return exit;
      try {
        current = await startWorkerd({ ...options, port });
      } catch (error) {
        options.logger?.error((error as Error).message);
        return exit;
      }
      options.logger?.info(`listening at ${url} again`);
      if (isStopping) void current.stop();
    }
  }

  const exited = untilTheEnd();
  return {
    url,
    port,
    get pid() {
      return current.pid;
    },
    exited,
    stop: async () => {
      isStopping = true;
      await current.stop();
      await exited;
    },
    kill: () => {
      isStopping = true;
      current.kill();
    },
  };
}
