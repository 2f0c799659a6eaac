import * as z from 'zod';
import { ENGINE_PHASES, FAILURE_KINDS } from '../engine/kinds/report.ts';

/** Messages between the supervisor and the worker it started, over the Node IPC channel. Parsed on receipt. */

/** Messages from the supervisor to the worker. */
export const SupervisorMessage = z.discriminatedUnion('case', [
  /** `progress`: how far the phase is, from 0 to 1, if the engine tells. `atMs`: when it was seen, epoch ms. */
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
