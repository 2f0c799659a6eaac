import { EXIT, endSignals } from '../process/index.ts';
import type { FleetView } from '../protocol/index.ts';
import type { QueueTarget } from './ask-queue.ts';
import { FleetConnection, readFleet } from './top/connection.ts';
import { fleetLines, type Screen } from './top/table.ts';

export interface TopOptions {
  url: string;
  token?: string;
  queueId?: string;
  /** Prints the frames of the live connection, a line each. */
  json?: boolean;
}

const SHOW_SCREEN = '\x1b[?1049h\x1b[?25l';
const LEAVE_SCREEN = '\x1b[?25h\x1b[?1049l';
const REDRAW_MS = 1000;

/**
 * `worker-vllm top`: the fleet in a terminal, live, until it is stopped. Elsewhere than on a terminal it is printed once.
 * @returns the exit code
 * @throws UserError when the queue cannot be reached, or the token may not look
 */
export async function runTop(options: TopOptions): Promise<number> {
  const address = { url: options.url, token: options.token, queueId: options.queueId };
  // Says what is wrong, which a WebSocket does not.
  const first = await readFleet(address);
  if (options.json) return printFrames(address);
  if (process.stdout.isTTY) return drawLive(address, first);
  const screen = { columns: 200, rows: Number.POSITIVE_INFINITY, hasColours: false };
  const lines = fleetLines({ view: first, now: first.at, connection: 'as it is now' }, screen);
  process.stdout.write(`${lines.join('\n')}\n`);
  return EXIT.ok;
}

async function printFrames(address: QueueTarget): Promise<number> {
  return untilStopped(
    new FleetConnection(address, {
      onFrame: (frame) => process.stdout.write(`${JSON.stringify(frame)}\n`),
      onState: (state) => state !== 'live' && process.stderr.write(`${state}\n`),
    }),
  );
}

async function drawLive(address: QueueTarget, first: FleetView): Promise<number> {
  const out = process.stdout;
  let view = first;
  let connection = 'connecting';
  let ahead = first.at - Date.now();
  const draw = () => {
    const screen: Screen = { columns: out.columns, rows: out.rows, hasColours: !process.env.NO_COLOR };
    const lines = fleetLines({ view, now: Date.now() + ahead, connection }, screen);
    out.write(`\x1b[H${lines.map((line) => `${line}\x1b[K`).join('\r\n')}\x1b[J`);
  };
  out.write(SHOW_SCREEN);
  const ticking = setInterval(draw, REDRAW_MS);
  out.on('resize', draw);
  try {
    return await untilStopped(
      new FleetConnection(address, {
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

async function untilStopped(connection: FleetConnection): Promise<number> {
  const signals = endSignals();
  await signals.first;
  connection.stop();
  signals.release();
  return EXIT.ok;
}
