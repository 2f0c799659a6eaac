import type { Alarm } from '../durable/ports.ts';
import type { Machine } from './rpc.ts';
import { intervalMs, LATE_INTERVALS } from './view/worker-row.ts';

export interface SilenceWatchPorts {
  /** Returns the machines whose workers have a connection, as far as this object knows. */
  connected(): Machine[];
  /** Asks the queue for its connections, if this object does not know them. Never rejects. */
  ensureShare(): Promise<void>;
  /** Has the queue close the connections of those of these workers that are gone. */
  closeSilent(workerIds: string[]): Promise<void>;
  alarm: Alarm;
  /** Returns the time, epoch ms. */
  now(): number;
}

/** An alarm that rings later than this, ms, shows that this process stood still. */
const STANDSTILL_MS = 5000;

/**
 * Notices workers that hang. Such a worker, or its machine, says nothing, and its connection stays open: a queue that is
 * idle looks at no connection, so that it can sleep. But the worker's heartbeats are missing here. This object then has
 * the queue look at the connection, which the queue closes if the worker is gone. Heartbeats may be missing for other
 * reasons too, so they alone end no connection.
 */
export class SilenceWatch {
  readonly #ports: SilenceWatchPorts;

  constructor(ports: SilenceWatchPorts) {
    this.#ports = ports;
  }

  /** Called when a heartbeat has come, or the queue has reported connections: either may be the last that is heard. */
  heard(): void {
    if (this.#ports.alarm.get() === null) this.#arm();
  }

  /** Has the queue look at the workers whose heartbeats are late. Called when the alarm has rung. */
  async onAlarm(): Promise<void> {
    const { alarm, now, ensureShare, closeSilent } = this.#ports;
    // Heartbeats that came during a standstill are not read yet.
    const stoodStill = now() - (alarm.get() ?? now()) > STANDSTILL_MS;
    // The alarm is set first, so that a failure below does not end the looks.
    this.#arm();
    if (stoodStill || this.#late().length === 0) return;
    await ensureShare();
    const late = this.#late();
    if (late.length > 0) await closeSilent(late);
    this.#arm();
  }

  #late(): string[] {
    const { connected, now } = this.#ports;
    return connected()
      .filter((machine) => (lateAt(machine) ?? Number.POSITIVE_INFINITY) <= now())
      .map(({ worker_id }) => worker_id);
  }

  /** Sets the alarm for the moment from which the next heartbeat is late; while one is, every half of its interval. */
  #arm(): void {
    const { connected, alarm, now } = this.#ports;
    let next = Number.POSITIVE_INFINITY;
    for (const machine of connected()) {
      const at = lateAt(machine);
      if (at !== null) next = Math.min(next, Math.max(at, now() + intervalMs(machine.heartbeat) / 2));
    }
    if (next === Number.POSITIVE_INFINITY) alarm.clear();
    else alarm.set(next);
  }
}

/** Returns the time from which on the next heartbeat of a connected worker is late, epoch ms; null: none is awaited. */
function lateAt({ session, heartbeat, heartbeat_at }: Machine): number | null {
  if (heartbeat_at === null) return null;
  const connectedAt = session?.connected_at ?? 0;
  // A base worker that is idle says nothing, so that the look costs it its connection: one look at each will do.
  if (session?.protocol === 'base' && heartbeat_at < connectedAt) return null;
  return Math.max(heartbeat_at, connectedAt) + LATE_INTERVALS * intervalMs(heartbeat);
}
