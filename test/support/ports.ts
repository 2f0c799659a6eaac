import { createServer, type Server } from 'node:net';

/**
 * Below what the system gives to connections and to servers that ask for any port (32768 and up on Linux): a queue
 * that is started again finds its port free, whatever else was started meanwhile.
 */
const FIRST = 10_240;
const LAST = 32_767;

/**
 * Processes that run side by side, test files and scripts, choose from ranges of their own. Over one range a process
 * was given, now and then, the port of another one's queue that was down for a moment, and that queue could not start
 * again.
 */
const RANGES = 64;
const SIZE = Math.floor((LAST - FIRST + 1) / RANGES);

/** The first port of the range that this process holds. */
let range: Promise<number> | null = null;
const handedOut = new Set<number>();

/** A port of the loopback interface that was free a moment ago; not the same twice in one process, but after many. */
export async function freePort(): Promise<number> {
  range ??= claimRange();
  const first = await range;
  if (handedOut.size > SIZE / 2) handedOut.clear();
  for (;;) {
    const port = first + Math.floor(Math.random() * SIZE);
    if (handedOut.has(port)) continue;
    const server = await listenAt(port);
    if (server === null) continue;
    handedOut.add(port);
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}

/** Listens at the first port of a range until this process ends, so that no other process chooses from that range. */
async function claimRange(): Promise<number> {
  const start = Math.floor(Math.random() * RANGES);
  for (let n = 0; n < RANGES; n++) {
    const port = FIRST + SIZE * ((start + n) % RANGES);
    const server = await listenAt(port);
    if (server === null) continue;
    server.unref();
    return port;
  }
  throw new Error(
    `${RANGES} processes hold the ranges of ports that tests choose from: wait until one of them has ended`,
  );
}

/** Null: the port is taken. */
function listenAt(port: number): Promise<Server | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(null));
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
