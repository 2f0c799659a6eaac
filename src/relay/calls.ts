import type { BrokenReason } from '../protocol/index.ts';

/** Name of the relay object that holds a worker's answers. */
export function relayName(queueId: string, workerId: string): string {
  return `${queueId}/${workerId}`;
}

/** What the queue may ask of a relay. The gateway asks for more (asking/objects.ts). */
export interface RelayCalls {
  /** The queue found that this attempt is lost: tell the caller that waits for it. */
  breakStream(stream: number, reason: BrokenReason): Promise<void>;
  /** Closes the answer socket with 1012: the process is about to end, or its worker has to show its token again. */
  closeSockets(): Promise<void>;
}

/** Code of the BrokenReason for a reader that came when the beginning of a replay buffer was dropped. */
export const BEGINNING_DROPPED = 'beginning_dropped';
