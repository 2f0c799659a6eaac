import { createServer } from 'node:net';

/**
 * Below what the system gives to connections and to servers that ask for any port (32768 and up on Linux): a queue
 * that is started again finds its port free, whatever else was started meanwhile.
 */
const FIRST = 10_240;
const LAST = 32_767;

/**
 * Test files that run side by side choose from ranges of their own. Over one range a file was given, now and then, the
 * port of another file's queue that was down for a moment, and that queue could not start again.
 */
const RANGES = 16;
const SIZE = Math.floor((LAST - FIRST + 1) / RANGES);
const ours = FIRST + SIZE * (Number(process.env.VITEST_POOL_ID ?? 0) % RANGES);

const handedOut = new Set<number>();

/** A port of the loopback interface that was free a moment ago; never the same twice in one process. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = ours + Math.floor(Math.random() * SIZE);
    if (handedOut.has(port) || !(await isFree(port))) continue;
    handedOut.add(port);
    return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
