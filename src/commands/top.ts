import { EXIT } from '../process/index.ts';
import type { QueueTarget } from './ask-queue.ts';
import { print, printNote } from './print.ts';
import { Browsing } from './top/browse.ts';
import { readFleet, watchFleet } from './top/connection.ts';
import { drawLive, untilStopped } from './top/live.ts';
import { fleetLines } from './top/screen.ts';

export interface TopOptions extends QueueTarget {
  /** Whether the command prints the frames of the live connection, a line each. */
  json?: boolean;
}

/**
 * Runs `worker-vllm top`: shows the fleet in a terminal, live, until it is stopped. Elsewhere than on a terminal the
 * fleet is printed once.
 * @returns the exit code
 * @throws UserError when the queue cannot be reached, or the token may not look
 */
export async function runTop(options: TopOptions): Promise<number> {
  // This call reports what is wrong, which a WebSocket does not.
  const first = await readFleet(options);
  if (options.json) return printFrames(options);
  if (process.stdout.isTTY) {
    const browsing = new Browsing(options);
    return drawLive(options, first, (...shown) => browsing.lines(...shown), browsing);
  }
  const screen = { columns: 200, rows: Number.POSITIVE_INFINITY, hasColours: false };
  const lines = fleetLines({ view: first, now: first.at, connection: 'as it is now' }, screen);
  print(lines.join('\n'));
  return EXIT.ok;
}

async function printFrames(address: QueueTarget): Promise<number> {
  return untilStopped(
    watchFleet(address, {
      onFrame: (frame) => print(JSON.stringify(frame)),
      onState: (state) => state !== 'live' && printNote(state),
    }),
  );
}
