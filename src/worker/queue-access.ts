import { type QueueProfile, RUNPOD_QUEUE } from '../protocol/index.ts';
import type { Clock, Timer } from './clock.ts';
import type { WorkerConfiguration } from './configuration.ts';
import type { InsideQueue, Ports } from './ports.ts';
import { dialWebSocket } from './session/dial.ts';
import type { Dial } from './session/socket.ts';
import { heartbeatPoster, type PostHeartbeat } from './telemetry/heartbeat.ts';

/** After a signal the open request for jobs of RunPod's queue may last this long, ms; a job that it brings is run. */
const LINGER_MS = 300;

/** The queue that this worker takes jobs from, as its process reaches it. */
export interface QueueAccess {
  dial: Dial;
  /** The queue, if it is in this process; left out: it is not. */
  inside?: InsideQueue;
  /** Posts heartbeats; null: none are sent. */
  post: PostHeartbeat | null;
  /** The queue's profile, if it is known; undefined: the queue itself reports it. */
  profile?: QueueProfile;
  /** Stops taking jobs before a drain. Resolves when no job is on its way any more, or after `limitMs`. */
  stopTaking(limitMs: number): Promise<void>;
  /** Returns the exit code, if the queue decides it; null: the worker decides. */
  exitCode(): number | null;
  close(): void;
}

/** Opens the queue. @param end called when the worker should end, since nothing is left to do */
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

/** The longest time between two looks, ms. */
const LOOK_EVERY_MS = 5000;

/** The part of a worker that the watch needs. */
export interface Watched {
  readonly hasQueue: boolean;
  queueLost(seconds: number): void;
}

/**
 * Ends a worker that has been without its queue for long, as a dead man's switch: its machine costs money for nothing,
 * and the launcher that could end it may be gone too.
 */
export class QueueWatch {
  readonly #clock: Clock;
  readonly #worker: Watched;
  readonly #limitSeconds: number;
  readonly #lookEveryMs: number;
  #lostMs = 0;
  #lookedAt = 0;
  #timer: Timer;

  /** @param limitSeconds 0: the watch never gives up */
  constructor(clock: Clock, worker: Watched, limitSeconds: number) {
    this.#clock = clock;
    this.#worker = worker;
    this.#limitSeconds = limitSeconds;
    this.#lookEveryMs = Math.min(LOOK_EVERY_MS, (limitSeconds * 1000) / 4);
  }

  start(): void {
    if (this.#limitSeconds === 0) return;
    this.#lookedAt = this.#clock.now();
    this.#lookLater();
  }

  stop(): void {
    this.#clock.clearTimeout(this.#timer);
  }

  #lookLater(): void {
    this.#timer = this.#clock.setTimeout(() => this.#look(), this.#lookEveryMs);
  }

  #look(): void {
    // A machine that stood still, such as a paused virtual one, did not look for its queue in that time.
    const passedMs = Math.min(this.#clock.now() - this.#lookedAt, 2 * this.#lookEveryMs);
    this.#lookedAt = this.#clock.now();
    this.#lostMs = this.#worker.hasQueue ? 0 : this.#lostMs + passedMs;
    if (this.#lostMs >= this.#limitSeconds * 1000) this.#worker.queueLost(this.#limitSeconds);
    else this.#lookLater();
  }
}
