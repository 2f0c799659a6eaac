/** What an engine's prompt is made of, in the order in which chat templates write it. */
export const PROMPT_FIELDS = [
  'tools',
  'system',
  'instructions',
  'messages',
  'prompt',
  'token_ids',
  'input',
] as const;

/** What names a conversation: the first of them that a body has. */
export const SESSION_FIELDS = ['conversation', 'prompt_cache_key', 'user'] as const;

/** Of a body, as JSON. */
export type PromptFields = Partial<
  Record<(typeof PROMPT_FIELDS)[number] | (typeof SESSION_FIELDS)[number], Uint8Array>
>;
