/** The states of a response in OpenAI's API; features/responses/types.ts says how one follows another. */
export const RESPONSE_STATUSES = [
  'queued',
  'in_progress',
  'completed',
  'incomplete',
  'failed',
  'cancelled',
] as const;
