import { EXIT, endSignals } from '../../process/index.ts';
import type { FleetFrame, FleetView } from '../../protocol/index.ts';
import { type FeedState, FleetFeed } from '../../show/fleet-feed.ts';
import { askQueueJson, type QueueTarget } from '../ask-queue.ts';
import type { Screen } from '../terminal.ts';
import { keysIn } from './keys.ts';
import type { ShownFleet } from './screen.ts';

const SHOW_SCREEN = '\x1b[?1049h\x1b[?25l';
const LEAVE_SCREEN = '\x1b[?25h\x1b[?1049l';
const REDRAW_MS = 1000;

/** A handler of keys that changes what is drawn. */
export interface Keys {
  /** Handles a key. @returns false if the key quits */
  press(key: string): boolean;
  /** Sets the listener. @param changed called when something else is to be drawn */
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

/** Reads keys as they are pressed. @returns a function that restores the terminal */
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

/** Waits for the end of a live display. @param quit resolves when something other than a signal ends it */
export async function untilStopped(connection: { stop(): void }, quit?: Promise<void>): Promise<number> {
  const signals = endSignals();
  await Promise.race([signals.first, ...(quit ? [quit] : [])]);
  connection.stop();
  signals.release();
  return EXIT.ok;
}

interface Watched {
  /** Called with the newest frame and view, whose clock is the server's. */
  onFrame(frame: FleetFrame, view: FleetView): void;
  /** Called with "live", or with the problem. */
  onState(state: string): void;
}

/**
 * Reads the fleet once, by HTTP.
 * @throws UserError when the queue cannot be reached, or the token may not look
 */
export function readFleet(target: QueueTarget): Promise<FleetView> {
  return askQueueJson(target, '/api/fleet', { scope: 'read' });
}

/** Watches the fleet until the feed is stopped. */
export function watchFleet(target: QueueTarget, watched: Watched): FleetFeed {
  let reported = '';
  const feed = new FleetFeed({
    open: () => openLive(target),
    read: () => readFleet(target),
    // A denied token is tried again like any other failure, since an operator may correct it.
    isDenied: () => false,
    onView: (view, frame) => watched.onFrame(frame, view),
    onConfirmed: () => {},
    onState: (state, _retryAtMs, error) => {
      const text = inWords(state, error);
      if (text !== reported) watched.onState(text);
      reported = text;
    },
  });
  feed.start();
  return feed;
}

function openLive({ url, token, queueId }: QueueTarget): WebSocket {
  const address = new URL(`${url.replace(/\/+$/, '')}/api/fleet/live`);
  address.protocol = address.protocol.replace('http', 'ws');
  if (queueId) address.searchParams.set('queue_id', queueId);
  // Node's WebSocket takes headers, which the type does not have.
  const options = token ? { headers: { authorization: `Bearer ${token}` } } : {};
  return new WebSocket(address, options as unknown as string[]);
}

function inWords(state: FeedState, error: unknown): string {
  if (state === 'live') return state;
  if (state === 'polling') return 'polling: WebSockets are refused on the way';
  return error instanceof Error ? error.message : 'connection lost, trying again';
}
