import { type QueueProfile, RUNPOD_QUEUE } from '../protocol/index.ts';
import type { WorkerConfiguration } from './configuration.ts';
import type { InsideQueue, Ports } from './ports.ts';
import { dialWebSocket } from './session/dial.ts';
import type { Dial } from './session/socket.ts';
import { heartbeatPoster, type PostHeartbeat } from './telemetry/heartbeat.ts';

/**
 * After a signal the open request for jobs of RunPod's queue may go on for this long, ms; a job that it brings is run.
 */
const LINGER_MS = 300;

/** The queue that this worker takes jobs from, as its process reaches it. */
export interface QueueAccess {
  dial: Dial;
  /** The queue, if it is in this process; left out: it is not. */
  inside?: InsideQueue;
  /** Posts heartbeats; null: none are sent. */
  post: PostHeartbeat | null;
  /** What is known of the queue; undefined: the queue itself tells. */
  profile?: QueueProfile;
  /** Stops taking jobs before a drain. Resolves when no job is on its way any more, or after `limitMs`. */
  stopTaking(limitMs: number): Promise<void>;
  /** The exit code, if the queue decides it; null: the worker does. */
  exitCode(): number | null;
  close(): void;
}

/** Opens the queue. @param end called when the worker should end, as nothing is left to do */
export async function openQueue(
  { runpodQueue, apiUrl, token }: WorkerConfiguration,
  ports: Pick<Ports, 'clock' | 'fetch' | 'fetchPublic' | 'random' | 'log'>,
  end: () => void,
): Promise<QueueAccess> {
  if (runpodQueue === null) {
    const post = apiUrl ? heartbeatPoster(ports, apiUrl, token) : null;
    return { dial: dialWebSocket, post, stopTaking: async () => {}, exitCode: () => null, close: () => {} };
  }
  const { openRunpodQueue } = await import('./runpod/open.ts');
  const { queue, ...opened } = await openRunpodQueue(runpodQueue, ports, end);
  return {
    ...opened,
    dial: queue.dial,
    inside: queue,
    profile: RUNPOD_QUEUE,
    stopTaking: (limitMs) => queue.stopTaking(LINGER_MS, limitMs),
  };
}
