import * as z from 'zod';
import { RollRequest } from '../../scheduler/rpc.ts';
import { FleetSpec } from '../../scheduler/spec.ts';

/** Body of `POST /v1/batches`; the bounds are OpenAI's. */
export const BatchRequest = z.object({
  input_file_id: z.string().min(1).max(128),
  endpoint: z.string().min(1).max(2048),
  completion_window: z.string(),
  metadata: z
    .record(z.string().max(64), z.string().max(512))
    .refine((pairs) => Object.keys(pairs).length <= 16, 'at most 16 pairs')
    .nullish(),
  output_expires_after: z
    .object({ anchor: z.literal('created_at'), seconds: z.number().int().min(3600).max(2_592_000) })
    .nullish(),
});

/** Whether the request only asks what would happen. */
const dry_run = z.boolean().default(false);

export const SpecRequest = z.object({ spec: FleetSpec, dry_run });

/** A request that names a problem of the attention list by its id. */
export const AcknowledgeRequest = z.object({ id: z.string().min(1).max(1024) });

export const ControlRequest = z.object({ dry_run });

/** An operator's order about the versions of a pool's workers. */
export const RollBody = z.discriminatedUnion('action', [
  RollRequest.options[0].extend({ dry_run }),
  RollRequest.options[1].extend({ dry_run }),
]);
