/** The fields that make up an engine's prompt, in the order in which chat templates write them. */
export const PROMPT_FIELDS = [
  'tools',
  'system',
  'instructions',
  'messages',
  'prompt',
  'token_ids',
  'input',
] as const;

/** The fields that name a conversation: the first of them that a body has counts. */
export const SESSION_FIELDS = ['conversation', 'prompt_cache_key', 'user'] as const;

/** The fields of a body that make up its prompt or name its conversation, as JSON. */
export type PromptFields = Partial<
  Record<(typeof PROMPT_FIELDS)[number] | (typeof SESSION_FIELDS)[number], Uint8Array>
>;
