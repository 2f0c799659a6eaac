import type { EngineCall, EngineClient } from '../engine/client/types.ts';
import type { Fetch } from '../process/http.ts';
import type { Log } from '../process/log.ts';
import type { GpuReading, Job, Prefills, Usage } from '../protocol/index.ts';
import type { Adapters } from './adapters/adapters.ts';
import type { Clock } from './clock.ts';
import type { Settlement } from './results/settlement.ts';
import type { Spool } from './results/spool.ts';
import type { Dial } from './session/socket.ts';

/** Everything outside itself that the worker touches: real in production, virtual in tests. */
export interface Ports {
  clock: Clock;
  dial: Dial;
  engine: EngineClient;
  fetch: Fetch;
  /** The same for addresses that others name: reaches the public internet only. */
  fetchPublic: Fetch;
  /** Of every GPU that the engine sees; none where that cannot be told. Never rejects. */
  gpus(): Promise<GpuReading[]>;
  /** Null: finished results live in memory only. */
  spool: Spool | null;
  /** 0 (inclusive) to 1 (exclusive). */
  random: () => number;
  log: Log;
  /** Those that the engine loads while it runs; left out: none. */
  adapters?: Adapters;
  /** What another engine prefills (prefill/); left out: there is none. */
  prefills?: { readonly counts: Prefills };
  /** The queue, where it is in this process; left out: it is at the other end of two sockets. */
  inside?: InsideQueue;
  /** Makes spans of jobs; left out: none are exported. */
  tracer?: JobTracer;
}

/** What a queue in this process takes as values, without frames and streams of bytes. */
export interface InsideQueue {
  /** @param streamId of the attempt, as its job's frame says @param output one thing that a `runpod` job yields */
  yielded(streamId: number, output: unknown): void;
  /** It acknowledges it in a frame. */
  settled(settlement: Settlement): void;
}

/** How an attempt left its slot. */
export type AttemptEnd =
  | { result: 'succeeded' }
  | { result: 'failed'; code: string; retryable: boolean }
  | { result: 'released' | 'revoked'; reason: string };

/** An attempt that has left its slot. */
export interface EndedAttempt {
  result: AttemptEnd['result'];
  /** In the engine; null: its request did not get there. */
  ranMs: number | null;
  /** From its request to the first piece of a streamed answer; null: none came. */
  firstTokenMs: number | null;
  usage: Usage | null;
}

/** Observes jobs, for figures. Decides nothing, and must not throw. */
export interface WorkObserver {
  /** A request left for the engine. */
  requested(): void;
  ended(attempt: EndedAttempt): void;
  /** The queue had not answered a renewal when the next one was due. */
  renewalMissed(): void;
}

/** Makes the spans of attempts (tracing/). */
export interface JobTracer {
  /** A job has come. @param nowMs epoch ms */
  begin(job: Job, nowMs: number): AttemptTrace;
}

/** Hears of one attempt what its spans are made of. Decides nothing, and must not throw. */
export interface AttemptTrace {
  /** A request leaves for the engine. @returns headers that it gets */
  request(call: EngineCall, nowMs: number): Record<string, string>;
  /** The answer to the newest request has begun. */
  answered(status: number): void;
  /** @param firstTokenAtMs epoch ms; null: nothing was streamed */
  end(end: AttemptEnd, facts: { usage: Usage | null; firstTokenAtMs: number | null }, nowMs: number): void;
}
