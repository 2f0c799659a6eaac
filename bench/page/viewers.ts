import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import type { FleetFrame } from '../../src/protocol/index.ts';
import { processorMs } from '../machine.ts';
import { median } from '../statistics.ts';

const WINDOW_MS = 10_000;
/** As the page does it. */
const PING_MS = 10_000;

/** The cost of ten viewers. */
export interface Watched {
  /** The percents of a core that all of them cost beside none, a pair a round. */
  percents: number[];
  /** The kB/s that one of them was sent. */
  kilobytes: number;
}

/** The queue with viewers and without, in turns. @param url of a queue whose fleet changes all the time */
export async function costOfViewers(
  url: string,
  queue: number,
  viewers: number,
  rounds: number,
): Promise<Watched> {
  const percents: number[] = [];
  const kilobytes: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const shares: Record<'with' | 'without', number> = { with: 0, without: 0 };
    // Neither is always the second.
    for (const which of round % 2 === 0 ? (['without', 'with'] as const) : (['with', 'without'] as const)) {
      const watching = which === 'with' ? await watch(url, viewers) : null;
      const before = processorMs(queue);
      const began = performance.now();
      const bytesBefore = watching?.bytes() ?? 0;
      await sleep(WINDOW_MS);
      const ms = performance.now() - began;
      shares[which] = ((processorMs(queue) - before) / ms) * 100;
      if (watching) kilobytes.push((watching.bytes() - bytesBefore) / ms / viewers);
      watching?.close();
    }
    percents.push(shares.with - shares.without);
  }
  return { percents, kilobytes: median(kilobytes) };
}

/** Resolves when each was sent the whole view. */
async function watch(url: string, viewers: number): Promise<{ bytes(): number; close(): void }> {
  let bytes = 0;
  const sockets = await Promise.all(
    Array.from({ length: viewers }, async () => {
      const socket = new WebSocket(`${url.replace('http', 'ws')}/api/fleet/live`, {
        perMessageDeflate: false,
      });
      const pings = setInterval(() => socket.readyState === WebSocket.OPEN && socket.send('ping'), PING_MS);
      socket.once('close', () => clearInterval(pings));
      socket.once('open', () => socket.send('{"type":"watch"}'));
      await new Promise<void>((resolve, reject) => {
        socket.once('error', reject);
        socket.on('message', (data) => {
          const text = String(data);
          bytes += text.length;
          if (text !== 'pong' && (JSON.parse(text) as FleetFrame).type === 'full') resolve();
        });
      });
      return socket;
    }),
  );
  return {
    bytes: () => bytes,
    close: () => {
      for (const socket of sockets) socket.close();
    },
  };
}
