import type { EngineClient } from '../engine/client/types.ts';
import type { Fetch } from '../process/http.ts';
import type { GpuReading, Usage } from '../protocol/index.ts';
import type { Clock } from './clock.ts';
import type { Spool } from './results/spool.ts';
import type { Dial } from './session/socket.ts';

/** The part of a logger this room uses; pino's has it. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Everything outside itself that the worker touches: real in production, virtual in tests. */
export interface Ports {
  clock: Clock;
  dial: Dial;
  engine: EngineClient;
  fetch: Fetch;
  /** The same for addresses that others name: it reaches the public internet only. */
  fetchPublic: Fetch;
  /** Of every GPU that the engine sees; none where that cannot be told. Never rejects. */
  gpus(): Promise<GpuReading[]>;
  /** Null: finished results live in memory only. */
  spool: Spool | null;
  /** 0 (inclusive) to 1 (exclusive). */
  random: () => number;
  log: Log;
}

/** An attempt that has left its slot. */
export interface EndedAttempt {
  result: 'succeeded' | 'failed' | 'released' | 'revoked';
  /** In the engine; null: its request did not get there. */
  ranMs: number | null;
  /** From its request to the first piece of a streamed answer; null: none came. */
  firstTokenMs: number | null;
  usage: Usage | null;
}

/** Hears what is done with jobs, for figures. Decides nothing, and must not throw. */
export interface WorkObserver {
  /** A request left for the engine. */
  requested(): void;
  ended(attempt: EndedAttempt): void;
  /** Leases were renewed and the queue did not say so before the next renewal was due. */
  renewalMissed(): void;
}
