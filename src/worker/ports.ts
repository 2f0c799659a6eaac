import type { EngineCall, EngineClient } from '../engine/client/types.ts';
import type { Fetch } from '../process/http.ts';
import type { Log } from '../process/log.ts';
import type { GpuReading, Job, ModelCard, Prefills, Usage } from '../protocol/index.ts';
import type { Adapters } from './adapters/adapters.ts';
import type { Clock } from './clock.ts';
import type { Settlement, Spool } from './jobs/settlement.ts';
import type { Dial } from './session/socket.ts';

/** The worker's ports, for everything that it touches outside itself: real in production, virtual in tests. */
export interface Ports {
  clock: Clock;
  dial: Dial;
  engine: EngineClient;
  fetch: Fetch;
  /** Fetches addresses that others name: reaches the public internet only. */
  fetchPublic: Fetch;
  /** Reads every GPU that the engine sees; none if that is not known. Never rejects. */
  gpus(): Promise<GpuReading[]>;
  /** The store of finished results; null: they are in memory only. */
  spool: Spool | null;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  random: () => number;
  log: Log;
  /** The layers that features put between jobs and the engine, the innermost first; left out: none. */
  layers?: readonly EngineLayer[];
  /** The adapters that the engine loads while it runs; left out: none. */
  adapters?: Adapters;
  /** The counts of prompts that another engine prefills (prefill/); left out: there is no such engine. */
  prefills?: { readonly counts: Prefills };
  /** The queue, if it is in this process; left out: it is at the other end of two sockets. */
  inside?: InsideQueue;
  /** Makes spans of jobs; left out: none are exported. */
  tracer?: JobTracer;
}

/** The part of the engine that a run uses. */
export type RunEngine = Pick<EngineClient, 'request' | 'isHealthy'>;

/** A layer between jobs and the engine, which a feature registers (features/worker.ts). */
export interface EngineLayer {
  /** Returns the engine as jobs reach it through the layer. */
  over(engine: RunEngine): RunEngine;
  /**
   * Called each time an engine is healthy: it may be another than before.
   * @param cards the engine's cards of its models
   */
  engineIs(cards: readonly ModelCard[]): void;
}

/** A queue in this process, which takes values instead of frames and streams of bytes. */
export interface InsideQueue {
  /**
   * Takes one output of a `runpod` job.
   * @param streamId the stream's id in the job's frame
   */
  yielded(streamId: number, output: unknown): void;
  /** Takes a settlement, which the queue acknowledges in a frame. */
  settled(settlement: Settlement): void;
}

/** The way in which an attempt left its slot. */
export type AttemptEnd =
  | { result: 'succeeded' }
  | { result: 'failed'; code: string; retryable: boolean }
  | { result: 'released' | 'revoked'; reason: string };

/** An attempt that has left its slot, with its times. */
export interface EndedAttempt {
  result: AttemptEnd['result'];
  /** The attempt's time in the engine, ms; null: its request did not get there. */
  ranMs: number | null;
  /** The time from the attempt's request to the first piece of a streamed answer, ms; null: no piece came. */
  firstTokenMs: number | null;
  usage: Usage | null;
}

/** Observes jobs, for metrics. Decides nothing, and must not throw. */
export interface WorkObserver {
  /** Called when a request has left for the engine. */
  requested(): void;
  ended(attempt: EndedAttempt): void;
  /** Called when a renewal had no answer by the time the next one was due. */
  renewalMissed(): void;
}

/** Makes the spans of attempts (tracing/). */
export interface JobTracer {
  /** Begins the trace of a job that has arrived. @param nowMs epoch ms */
  begin(job: Job, nowMs: number): AttemptTrace;
}

/** Collects the facts for the spans of one attempt. Decides nothing, and must not throw. */
export interface AttemptTrace {
  /** Called when a request leaves for the engine. @returns headers to add to the request */
  request(call: EngineCall, nowMs: number): Record<string, string>;
  /** Called when the answer to the newest request has begun. */
  answered(status: number): void;
  /** Ends the trace. @param firstTokenAtMs epoch ms; null: nothing was streamed */
  end(end: AttemptEnd, facts: { usage: Usage | null; firstTokenAtMs: number | null }, nowMs: number): void;
}
