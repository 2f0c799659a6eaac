import * as z from 'zod';

const Id = z.looseObject({ id: z.string().min(1).max(256) });
/** A limit that RunPod's own API would not take is no reason to fail a job. */
const Policy = z.object({
  executionTimeout: z
    .number()
    .min(5000)
    .max(7 * 86_400_000),
});

/** A job as the platform gives it. */
export interface TakenJob {
  id: string;
  /** What a `runpod` job's payload is; an input that is none fails when the job runs. */
  payload: { input: unknown; policy?: { executionTimeout: number } };
  /** Fields that are not there in every job, for the log. */
  notes: { batch_id?: string };
  hasInput: boolean;
}

/** @param given what the platform sent; null: nothing that could be answered */
export function readTakenJob(given: unknown): TakenJob | null {
  const parsed = Id.safeParse(given);
  if (!parsed.success) return null;
  const { id, input, policy, batchId } = parsed.data;
  const limits = Policy.safeParse(policy);
  return {
    id,
    payload: { input, ...(limits.success && { policy: limits.data }) },
    notes: typeof batchId === 'string' ? { batch_id: batchId } : {},
    hasInput: input !== undefined,
  };
}
