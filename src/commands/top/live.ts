import { EXIT, endSignals } from '../../process/index.ts';
import type { FleetView } from '../../protocol/index.ts';
import type { QueueTarget } from '../ask-queue.ts';
import { watchFleet } from './connection.ts';
import { keysIn } from './keys.ts';
import type { ShownFleet } from './screen.ts';
import type { Screen } from './terminal.ts';

const SHOW_SCREEN = '\x1b[?1049h\x1b[?25l';
const LEAVE_SCREEN = '\x1b[?25h\x1b[?1049l';
const REDRAW_MS = 1000;

/** A handler of keys that changes what is drawn. */
export interface Keys {
  /** @returns false where the key quits */
  press(key: string): boolean;
  /** @param changed called when something else is to be drawn */
  onChange(changed: () => void): void;
  stop(): void;
}

/** Draws a fleet on this terminal, live, until a signal or a key ends it. @returns the exit code */
export async function drawLive(
  address: QueueTarget,
  first: FleetView,
  linesOf: (shown: ShownFleet, screen: Screen) => string[],
  keys?: Keys,
): Promise<number> {
  const out = process.stdout;
  let view = first;
  let connection = 'connecting';
  let ahead = first.at - Date.now();
  const draw = () => {
    const screen: Screen = { columns: out.columns, rows: out.rows, hasColours: !process.env.NO_COLOR };
    const lines = linesOf({ view, now: Date.now() + ahead, connection }, screen);
    out.write(`\x1b[H${lines.map((line) => `${line}\x1b[K`).join('\r\n')}\x1b[J`);
  };
  out.write(SHOW_SCREEN);
  const ticking = setInterval(draw, REDRAW_MS);
  out.on('resize', draw);
  const quit = Promise.withResolvers<void>();
  keys?.onChange(draw);
  const release = readKeys((key) => {
    if (keys?.press(key) === false) quit.resolve();
    else draw();
  }, keys !== undefined);
  try {
    return await untilStopped(
      watchFleet(address, {
        onFrame: (_frame, newest) => {
          view = newest;
          ahead = newest.at - Date.now();
          draw();
        },
        onState: (state) => {
          connection = state;
          draw();
        },
      }),
      quit.promise,
    );
  } finally {
    keys?.stop();
    release();
    clearInterval(ticking);
    out.off('resize', draw);
    out.write(LEAVE_SCREEN);
  }
}

/** Reads keys as they are pressed. @returns a function that gives the terminal back */
function readKeys(onKey: (key: string) => void, isWanted: boolean): () => void {
  const { stdin } = process;
  if (!isWanted || !stdin.isTTY) return () => {};
  const onData = (text: string) => {
    for (const key of keysIn(text)) onKey(key);
  };
  stdin.setRawMode(true);
  stdin.setEncoding('utf8');
  stdin.on('data', onData);
  stdin.resume();
  return () => {
    stdin.off('data', onData);
    stdin.setRawMode(false);
    stdin.pause();
  };
}

/** @param quit resolves where something else than a signal ends it */
export async function untilStopped(connection: { stop(): void }, quit?: Promise<void>): Promise<number> {
  const signals = endSignals();
  await Promise.race([signals.first, ...(quit ? [quit] : [])]);
  connection.stop();
  signals.release();
  return EXIT.ok;
}
