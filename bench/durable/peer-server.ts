import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';

/** Where `node bench/setup.ts` puts what is compared with. */
export const PEERS = fileURLToPath(new URL('../.peers', import.meta.url));

/** A server that stored jobs are compared with. */
export interface PeerServer {
  url: string;
  pid: number;
  /** Ends it, with what it stored. */
  stop(): void;
}

/** @returns `stop`, which also runs when this process ends first, such as by a signal: nothing stays behind */
export function untilExit(stop: () => void): () => void {
  process.once('exit', stop);
  return () => {
    process.off('exit', stop);
    stop();
  };
}

export function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
