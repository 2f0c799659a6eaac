import * as z from 'zod';

/** Answers about the fleet's file. */

export const AppliedSpec = z.object({
  /** As `/schemas/Fleet.json` has it. */
  spec: z.record(z.string(), z.unknown()),
  applied_at: z.number(),
});

export const Controlled = z.object({
  text: z.string(),
  control: z.enum(['automatic', 'paused', 'drained']),
});
