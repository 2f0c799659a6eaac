import * as z from 'zod';
import { FleetSpec } from '../scheduler/spec.ts';

/** Only tells what would happen. */
const dry_run = z.boolean().default(false);

export const SpecRequest = z.object({ spec: FleetSpec, dry_run });

export const ControlRequest = z.object({ dry_run });
