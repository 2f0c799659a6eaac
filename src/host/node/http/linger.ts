import type { IncomingMessage } from 'node:http';

/** The longest time that a caller may go on sending after its answer, in all and without a byte, ms. */
const LINGER_MS = { most: 10_000, idle: 2000 };

/**
 * Reads and discards what a caller still sends after its answer: closing the connection earlier would lose the answer,
 * which the caller has not read. Resolves when the caller has sent all, has left, or goes on for too long.
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
