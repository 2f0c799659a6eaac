import type { IncomingMessage } from 'node:http';

/** How long a caller may go on sending after its answer, ms: in all, and without a byte. */
const LINGER_MS = { most: 10_000, idle: 2000 };

/**
 * Reads what a caller still sends that has its answer already, and throws it away: closing the connection before would
 * discard the answer that the caller has not read. Resolves when the caller has sent all, has left, or goes on for too
 * long.
 */
export function hearOut(incoming: IncomingMessage): Promise<void> {
  return new Promise((done) => {
    if (incoming.complete || incoming.destroyed) return done();
    const over = () => {
      for (const timer of timers) clearTimeout(timer);
      done();
    };
    const timers = [setTimeout(over, LINGER_MS.idle), setTimeout(over, LINGER_MS.most)];
    incoming.removeAllListeners('readable');
    incoming.on('data', () => timers[0]!.refresh());
    incoming.once('end', over).once('close', over).resume();
  });
}
