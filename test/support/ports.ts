import { createServer } from 'node:net';

/**
 * Below what the system gives to connections and to servers that ask for any port (32768 and up on Linux): a queue
 * that is started again finds its port free, whatever else was started meanwhile.
 */
const FIRST = 10_240;
const LAST = 32_767;

const handedOut = new Set<number>();

/** A port of the loopback interface that was free a moment ago; never the same twice in one process. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST + 1));
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
