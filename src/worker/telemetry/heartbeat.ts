import { postJson, reasonOf, type Web } from '../../process/http.ts';
import { Outage } from '../../process/outage.ts';
import { withTimeout } from '../../process/timeout.ts';
import type { Heartbeat } from '../../protocol/index.ts';
import type { Timer } from '../clock.ts';
import type { Ports } from '../ports.ts';

const POST_WITHIN_MS = 2000;

export type PostHeartbeat = (beat: Heartbeat) => Promise<void>;

/** A heartbeat without its sender. */
export type Beat = Pick<Heartbeat, 'status' | 'error_message' | 'phase' | 'running'>;

/** Posts to `{apiUrl}/api/heartbeats`. */
export function heartbeatPoster(web: Web, apiUrl: string, token: string | undefined): PostHeartbeat {
  const url = `${apiUrl}/api/heartbeats`;
  return (body) => postJson(web, { url, token, body, limitMs: POST_WITHIN_MS });
}

export interface HeartbeatsPorts extends Pick<Ports, 'clock' | 'log'> {
  intervalSeconds: number;
  identity: Omit<Heartbeat, keyof Beat>;
  /** Null: there is no address to post to, and nothing is sent. */
  post: PostHeartbeat | null;
  /** The heartbeat to send at each interval; null sends none, which is a message too. */
  current(): Beat | null;
}

/** Sends heartbeats, best effort: one post at a time; while it runs the newest waits and those between are dropped. */
export class Heartbeats {
  readonly #ports: HeartbeatsPorts;
  #pending: Beat | null = null;
  #posting: Promise<void> | null = null;
  #timer: Timer = null;
  readonly #outage: Outage;

  constructor(ports: HeartbeatsPorts) {
    this.#ports = ports;
    const begins = 'heartbeats do not arrive; jobs are not affected';
    this.#outage = new Outage(ports.log, { begins, ends: 'heartbeats arrive again' });
  }

  /** Sends the first at once, then one each interval. */
  start(): void {
    const beat = this.#ports.current();
    if (beat) this.say(beat);
    const intervalMs = this.#ports.intervalSeconds * 1000;
    this.#timer = this.#ports.clock.setTimeout(() => this.start(), intervalMs);
  }

  say(beat: Beat): void {
    if (!this.#ports.post) return;
    this.#pending = beat;
    this.#posting ??= this.#postPending(this.#ports.post);
  }

  /** Stops the interval; resolves when the last post has ended, or after `withinMs`. */
  async stop(withinMs: number): Promise<void> {
    const { clock } = this.#ports;
    clock.clearTimeout(this.#timer);
    const posting = this.#posting;
    if (posting) await withTimeout(clock, withinMs, () => posting).catch(() => {});
  }

  async #postPending(post: PostHeartbeat): Promise<void> {
    while (this.#pending) {
      const beat = this.#pending;
      this.#pending = null;
      await post({ ...this.#ports.identity, ...beat }).then(
        () => this.#outage.report(null),
        (error: unknown) => this.#outage.report(reasonOf(error)),
      );
    }
    this.#posting = null;
  }
}
