import * as z from 'zod';
import { ENGINE_PHASES, FAILURE_KINDS } from '../engine/kinds/report.ts';
import type { Logger } from '../process/index.ts';
import { parseValue } from '../protocol/index.ts';
import type { EngineOwner, EngineWatch } from './engine-watch.ts';
import type { Worker } from './worker.ts';

/**
 * The messages, parsed on receipt, between the supervisor and the worker that it started, over the Node IPC channel.
 */

/** Messages from the supervisor to the worker. */
export const SupervisorMessage = z.discriminatedUnion('case', [
  /** `progress`: the phase's progress from 0 to 1, if the engine reports it. `atMs`: when it was seen, epoch ms. */
  z.object({
    case: z.literal('phase'),
    phase: z.enum(ENGINE_PHASES),
    progress: z.number().optional(),
    atMs: z.number(),
  }),
  /**
   * The engine's process ended without being asked to. The worker reports, releases its jobs and exits. The message
   * ends with the advice.
   */
  z.object({
    case: z.literal('engine_exited'),
    message: z.string(),
    advice: z.string(),
    wasHealthy: z.boolean(),
    kind: z.enum(FAILURE_KINDS),
  }),
  /**
   * The engine's process ended without being asked to, and is started again after this pause: the worker fails the
   * running jobs, and waits.
   */
  z.object({
    case: z.literal('engine_restarting'),
    message: z.string(),
    advice: z.string(),
    afterMs: z.number(),
  }),
]);
export type SupervisorMessage = z.infer<typeof SupervisorMessage>;

/** Messages from the worker to the supervisor. */
export const WorkerMessage = z.discriminatedUnion('case', [
  /** The engine answers its health check, for the first time or again. */
  z.object({ case: z.literal('engine_healthy') }),
  /** The engine lives and makes no progress, so the supervisor should kill it. */
  z.object({ case: z.literal('engine_hung'), message: z.string() }),
]);
export type WorkerMessage = z.infer<typeof WorkerMessage>;

/** The owner of the engine when a supervisor started engine and worker. */
export const SUPERVISOR: EngineOwner = {
  healthy: () => tellSupervisor({ case: 'engine_healthy' }),
  hung: (message) => tellSupervisor({ case: 'engine_hung', message }),
};

/**
 * Follows the messages of the supervisor, if there is one.
 * @returns a function that closes the channel, which would keep the process alive
 */
export function listenToSupervisor(worker: Worker, watch: EngineWatch, log: Logger): () => void {
  if (!process.send) return () => {};
  const onMessage = (given: unknown) => {
    const parsed = parseValue(SupervisorMessage, given);
    if (parsed.ok) return obey(parsed.value, worker, watch);
    log.warn(
      { message: given, problem: parsed.message },
      'a message of the supervisor cannot be read; ignored',
    );
  };
  // No supervisor is left to stop the engine properly or to wait for this process.
  const onDisconnect = () => worker.drain(0);
  process.on('message', onMessage);
  process.on('disconnect', onDisconnect);
  return () => {
    process.off('message', onMessage);
    process.off('disconnect', onDisconnect);
    if (process.connected) process.disconnect();
  };
}

function obey(message: SupervisorMessage, worker: Worker, watch: EngineWatch): void {
  switch (message.case) {
    case 'phase':
      return worker.enginePhase(message);
    case 'engine_restarting':
      return watch.restarting(message.message, message.afterMs, message.advice);
    case 'engine_exited':
      return worker.engineFailed(message.message, message.wasHealthy, message.kind, message.advice);
    default:
      message satisfies never;
  }
}

function tellSupervisor(message: WorkerMessage): void {
  // A supervisor that is gone needs no messages, and the error would report only that.
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}
