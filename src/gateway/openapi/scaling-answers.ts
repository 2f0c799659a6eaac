import * as z from 'zod';
import type { SpecChange as SpecChangeType } from '../../scheduler/rpc.ts';

/** What operators are told of the fleet's file. */

const dollars = z.number().min(0);
const text = z.string();

export const AppliedSpec = z.object({
  /** As `/schemas/Fleet.json` has it. */
  spec: z.record(z.string(), z.unknown()),
  applied_at: z.number(),
});

export const SpecChange: z.ZodType<SpecChangeType> = z.object({
  applied: z.boolean(),
  changes: z.array(text),
  price_per_hour: z.object({ min: dollars, max: dollars }),
});

export const Controlled = z.object({
  text,
  control: z.enum(['automatic', 'paused', 'drained']),
});
