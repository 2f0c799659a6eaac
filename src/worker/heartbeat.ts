import type { Heartbeat } from '../protocol/index.ts';
import type { Timer } from './clock.ts';
import { reasonOf, withinMs } from './transfer.ts';
import { Trouble } from './trouble.ts';
import type { World } from './world.ts';

const POST_WITHIN_MS = 2000;

export type PostHeartbeat = (beat: Heartbeat) => Promise<void>;

/** What a beat says beside who it is from. */
export type Beat = Pick<Heartbeat, 'status' | 'error_message' | 'phase' | 'running'>;

/** Posts to `{apiUrl}/api/heartbeats`. */
export function heartbeatPoster(
  world: Pick<World, 'clock' | 'fetch'>,
  apiUrl: string,
  token: string | undefined,
): PostHeartbeat {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (token) headers.authorization = `Bearer ${token}`;
  return async (beat) => {
    const response = await withinMs(world.clock, POST_WITHIN_MS, (signal) =>
      world.fetch(`${apiUrl}/api/heartbeats`, {
        method: 'POST',
        headers,
        body: JSON.stringify(beat),
        signal,
      }),
    );
    await response.body?.cancel();
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
  };
}

export interface HeartbeatsParts {
  world: Pick<World, 'clock' | 'log'>;
  intervalSeconds: number;
  identity: Omit<Heartbeat, keyof Beat>;
  /** Null: no address to post to, so nothing is done. */
  post: PostHeartbeat | null;
  /** What to say at each interval; null: nothing, since silence is the message. */
  current(): Beat | null;
}

/** Tells the API how this worker does. Best effort: one post at a time, the newest waits, none is repeated. */
export class Heartbeats {
  readonly #parts: HeartbeatsParts;
  #pending: Beat | null = null;
  #posting: Promise<void> | null = null;
  #timer: Timer = null;
  readonly #trouble: Trouble;

  constructor(parts: HeartbeatsParts) {
    this.#parts = parts;
    const begins = 'heartbeats do not arrive; jobs are not affected';
    this.#trouble = new Trouble(parts.world.log, { begins, ends: 'heartbeats arrive again' });
  }

  /** The first beat at once, then one each interval. */
  start(): void {
    const beat = this.#parts.current();
    if (beat) this.say(beat);
    const intervalMs = this.#parts.intervalSeconds * 1000;
    this.#timer = this.#parts.world.clock.setTimeout(() => this.start(), intervalMs);
  }

  say(beat: Beat): void {
    if (!this.#parts.post) return;
    this.#pending = beat;
    this.#posting ??= this.#postPending(this.#parts.post);
  }

  /** No more beats by themselves; resolves when the last one is out, given up, or `withinMs` are over. */
  async stop(withinMs: number): Promise<void> {
    const { clock } = this.#parts.world;
    clock.clearTimeout(this.#timer);
    if (!this.#posting) return;
    const late = Promise.withResolvers<void>();
    const timer = clock.setTimeout(late.resolve, withinMs);
    await Promise.race([this.#posting, late.promise]);
    clock.clearTimeout(timer);
  }

  async #postPending(post: PostHeartbeat): Promise<void> {
    while (this.#pending) {
      const beat = this.#pending;
      this.#pending = null;
      await post({ ...this.#parts.identity, ...beat }).then(
        () => this.#trouble.report(null),
        (error: unknown) => this.#trouble.report(reasonOf(error)),
      );
    }
    this.#posting = null;
  }
}
