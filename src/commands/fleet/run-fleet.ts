import { type LauncherOptions, type RunningLauncher, startLauncher } from '../../launcher/run.ts';
import { createLogger } from '../../process/index.ts';
import type { FleetView } from '../../protocol/index.ts';
import type { QueueTarget } from '../ask-queue.ts';
import { print } from '../print.ts';
import { watchFleet } from '../top/connection.ts';
import { applyFleet, changeLines } from './control.ts';
import { FileFollower } from './follow-file.ts';
import { happenings } from './story.ts';

export interface RunningFleet {
  launcher: RunningLauncher;
  /** Reads the file again. */
  reload(): void;
  /** Stops following the file and printing; the launcher goes on. */
  stop(): void;
}

/**
 * Applies a fleet's file to a queue, now and whenever it changes, starts a launcher, and prints what happens. Waits
 * for a queue that is away.
 * @throws UserError when the file cannot be applied now
 */
export async function runFleet(
  path: string,
  target: QueueTarget,
  options: Omit<LauncherOptions, keyof QueueTarget>,
  env: NodeJS.ProcessEnv,
): Promise<RunningFleet> {
  const follower = new FileFollower({
    path,
    env,
    say: print,
    apply: async ({ document }) => {
      const { changes, ...rest } = await applyFleet(target, document);
      if (changes.length === 0) return print(`${path} is in force as it was.`);
      for (const line of changeLines({ changes, ...rest })) print(line);
    },
  });
  await follower.start();
  // The command prints what it does in sentences, so the log has warnings only.
  const log = createLogger('launcher', { ...env, LOG_LEVEL: env.LOG_LEVEL || 'warn' });
  const launcher = startLauncher({ ...options, ...target }, env, log);
  let before: FleetView | null = null;
  const telling = watchFleet(target, {
    onFrame: (_frame, view) => {
      for (const text of happenings(before, view)) print(text);
      before = view;
    },
    // The launcher says when the queue is away.
    onState: () => {},
  });
  return {
    launcher,
    reload: () => follower.again(),
    stop: () => {
      follower.stop();
      telling.stop();
    },
  };
}
