import * as z from 'zod';

/** `active` is what deployed workers say for `running`; `fatal` means the host itself is bad. */
const HEARTBEAT_STATUSES = [
  'starting',
  'running',
  'active',
  'draining',
  'stopping',
  'error',
  'failed',
  'fatal',
] as const;

/** Body of `POST /api/heartbeats`. Fields after `error_message` are ours; a base API ignores them. */
export const Heartbeat = z.object({
  instance_id: z.string().min(1).max(256),
  queue_id: z.string().min(1).max(256).optional(),
  status: z.enum(HEARTBEAT_STATUSES),
  error_message: z.string().max(16_384).optional(),
  config_id: z.string().max(256).optional(),
  worker_id: z.string().max(256).optional(),
  /** What the engine is doing while `starting`: download, load, compile, capture, warm, ready. */
  phase: z.string().max(256).optional(),
  /** Jobs running now. */
  running: z.number().int().min(0).optional(),
  capacity: z.number().int().min(0).optional(),
  /** How the next state is to be expected from the last one's age. */
  interval_seconds: z.number().positive().optional(),
});
export type Heartbeat = z.infer<typeof Heartbeat>;
