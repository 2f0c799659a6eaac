import { withTimeout } from '../../process/clock.ts';
import { postJson, reasonOf, type Web } from '../../process/http.ts';
import { Outage } from '../../process/outage.ts';
import type { Heartbeat } from '../../protocol/index.ts';
import type { Timer } from '../clock.ts';
import type { Ports } from '../ports.ts';

const POST_WITHIN_MS = 2000;
/** A value that changes all the time is reported at most once in this time, ms. */
const SOON_MS = 2000;

export type PostHeartbeat = (beat: Heartbeat) => Promise<void>;

/** The content of a heartbeat; metrics are added when it leaves. */
export type Beat = Pick<Heartbeat, 'status' | 'error_message' | 'advice'>;

/** Returns the texts of a heartbeat. @param advice the advice with which the message ends */
export function wordsOf(message: string, advice: string | undefined): Omit<Beat, 'status'> {
  return advice ? { error_message: message, advice } : { error_message: message };
}

/** Returns a function that posts to `{apiUrl}/api/heartbeats`. */
export function heartbeatPoster(web: Web, apiUrl: string, token: string | undefined): PostHeartbeat {
  const url = `${apiUrl}/api/heartbeats`;
  return (body) => postJson(web, { url, token, body, limitMs: POST_WITHIN_MS });
}

export interface HeartbeatsPorts extends Pick<Ports, 'clock' | 'log'> {
  intervalSeconds: number;
  /** Adds the sender and metrics. Must not reject. */
  complete(beat: Beat): Promise<Heartbeat>;
  /** Posts a heartbeat; null: there is no address to post to, and nothing is sent. */
  post: PostHeartbeat | null;
  /** Returns the heartbeat to send at each interval; null sends none, and this silence is a sign too. */
  current(): Beat | null;
}

/**
 * Sends heartbeats, best effort, one post at a time. During a post the newest heartbeat waits, and older ones are
 * dropped.
 */
export class Heartbeats {
  readonly #ports: HeartbeatsPorts;
  #pending: Beat | null = null;
  #posting: Promise<void> | null = null;
  #timer: Timer = null;
  #soon: Timer = null;
  #isStopped = false;
  readonly #outage: Outage;

  constructor(ports: HeartbeatsPorts) {
    this.#ports = ports;
    const begins = 'heartbeats do not arrive; jobs are not affected';
    this.#outage = new Outage(ports.log, { begins, ends: 'heartbeats arrive again' });
  }

  /** Sends the first heartbeat at once, then one at each interval. */
  start(): void {
    this.#sayCurrent();
    const intervalMs = this.#ports.intervalSeconds * 1000;
    this.#timer = this.#ports.clock.setTimeout(() => this.start(), intervalMs);
  }

  say(beat: Beat): void {
    if (!this.#ports.post) return;
    this.#pending = beat;
    this.#posting ??= this.#postPending(this.#ports.post);
  }

  /** Sends the state a little later, so that all calls until then make one heartbeat. */
  saySoon(): void {
    if (this.#isStopped || !this.#ports.post) return;
    this.#soon ??= this.#ports.clock.setTimeout(() => {
      this.#soon = null;
      this.#sayCurrent();
    }, SOON_MS);
  }

  /** Stops the interval; resolves when the last post has ended, or after `withinMs`. */
  async stop(withinMs: number): Promise<void> {
    const { clock } = this.#ports;
    this.#isStopped = true;
    clock.clearTimeout(this.#timer);
    clock.clearTimeout(this.#soon);
    const posting = this.#posting;
    if (posting) await withTimeout(clock, withinMs, () => posting).catch(() => {});
  }

  #sayCurrent(): void {
    const beat = this.#ports.current();
    if (beat) this.say(beat);
  }

  async #postPending(post: PostHeartbeat): Promise<void> {
    while (this.#pending) {
      const beat = this.#pending;
      this.#pending = null;
      await post(await this.#ports.complete(beat)).then(
        () => this.#outage.report(null),
        (error: unknown) => this.#outage.report(reasonOf(error)),
      );
    }
    this.#posting = null;
  }
}
