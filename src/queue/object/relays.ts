import { type BrokenReason, limits } from '../../protocol/index.ts';
import { RelayHost } from '../../relay/object/host.ts';
import type { RelaySettings } from '../../relay/ports.ts';
import type { RelayMetrics } from '../rpc.ts';
import type { QueueEnv } from './env.ts';

const LEFT: BrokenReason = {
  message: 'the queue starts again',
  code: 'worker_error',
  retryable: true,
};

/** The relays of a queue's workers, where the queue's own object holds them (docs/decisions/one-hop.md). */
export class Relays {
  readonly #settings: RelaySettings;
  readonly #env: QueueEnv;
  readonly #hosts = new Map<string, RelayHost>();
  /** Bytes that hosts received which are gone by now. */
  #receivedBefore = 0;

  /** Null: this object holds none. */
  static of(env: QueueEnv): Relays | null {
    const grace = Number(env.RECONNECT_GRACE_SECONDS ?? limits.RECONNECT_GRACE_SECONDS);
    return env.RELAYS_IN_QUEUE ? new Relays({ reconnect_grace_seconds: grace }, env) : null;
  }

  private constructor(settings: RelaySettings, env: QueueEnv) {
    this.#settings = settings;
    this.#env = env;
  }

  /** @param name of relayName */
  named(name: string): RelayHost {
    const known = this.#hosts.get(name);
    if (known) return known;
    // There are few workers, and a new one is rare.
    for (const [other, host] of this.#hosts) if (host.isIdle) this.#forget(other, host);
    const host = new RelayHost(this.#settings, this.#env);
    this.#hosts.set(name, host);
    return host;
  }

  /** Of all of them; the bytes since the object started. */
  metrics(): RelayMetrics {
    const hosts = [...this.#hosts.values()];
    return {
      streams: hosts.reduce((sum, { streams }) => sum + streams, 0),
      received_bytes: hosts.reduce((sum, { received }) => sum + received, this.#receivedBefore),
    };
  }

  #forget(name: string, host: RelayHost): void {
    this.#receivedBefore += host.received;
    this.#hosts.delete(name);
  }

  /** The object is about to end and every response with it, so each relay tells its callers why. */
  leave(): void {
    for (const host of this.#hosts.values()) {
      host.breakAll(LEFT);
      host.closeSocket();
    }
  }
}
