import type { EngineClient } from '../engine/client/types.ts';
import type { Fetch } from '../process/http.ts';
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
  /** Null: finished results live in memory only. */
  spool: Spool | null;
  /** 0 (inclusive) to 1 (exclusive). */
  random: () => number;
  log: Log;
}
