import { EXIT, endSignals } from '../../process/index.ts';
import type { FleetView } from '../../protocol/index.ts';
import type { QueueTarget } from '../ask-queue.ts';
import { watchFleet } from './connection.ts';
import type { Shown } from './screen.ts';
import type { Screen } from './terminal.ts';

const SHOW_SCREEN = '\x1b[?1049h\x1b[?25l';
const LEAVE_SCREEN = '\x1b[?25h\x1b[?1049l';
const REDRAW_MS = 1000;

/** Draws a fleet on this terminal, live, until a signal. @returns the exit code */
export async function drawLive(
  address: QueueTarget,
  first: FleetView,
  linesOf: (shown: Shown, screen: Screen) => string[],
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
    );
  } finally {
    clearInterval(ticking);
    out.off('resize', draw);
    out.write(LEAVE_SCREEN);
  }
}

export async function untilStopped(connection: { stop(): void }): Promise<number> {
  const signals = endSignals();
  await signals.first;
  connection.stop();
  signals.release();
  return EXIT.ok;
}
