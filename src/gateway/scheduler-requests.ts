import * as z from 'zod';
import { FleetSpec } from '../scheduler/spec.ts';

/** Whether the request only asks what would happen. */
const dry_run = z.boolean().default(false);

export const SpecRequest = z.object({ spec: FleetSpec, dry_run });

/** A request that names a problem of the attention list by its id. */
export const AcknowledgeRequest = z.object({ id: z.string().min(1).max(1024) });

export const ControlRequest = z.object({ dry_run });
