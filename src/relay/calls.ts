import type { BrokenReason } from '../protocol/index.ts';

/** Returns the name of the relay object that holds a worker's answers. */
export function relayName(queueId: string, workerId: string): string {
  return `${queueId}/${workerId}`;
}

/** The calls that the queue makes to a relay. The gateway makes further ones (asking/objects.ts). */
export interface RelayCalls {
  /**
   * Tells the caller that waits for this attempt that the queue found it lost.
   * @param where `any home`: the stream may have any home, whatever its id says
   */
  breakStream(stream: number, reason: BrokenReason, where?: 'any home'): Promise<void>;
  /** Closes the answer socket with 1012: the process is about to end, or its worker has to show its token again. */
  closeSockets(): Promise<void>;
}

/** The code of the BrokenReason for a reader that came after the beginning of a replay buffer was dropped. */
export const BEGINNING_DROPPED = 'beginning_dropped';
