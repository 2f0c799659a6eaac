import { countTokens, promptIds } from './text.ts';

type Body = Record<string, unknown>;

/** One prompt, which has no text if it is a list of token ids. */
export interface Prompt {
  text: string;
  ids: readonly number[];
}

/** The number of tokens that the chat template adds around each message. */
const TEMPLATE_TOKENS = 4;

/** Returns the ids that replace a chat's messages, which are ignored then, or null. */
export function givenIds({ kv_transfer_params: params }: Body): number[] | null {
  const ids = (params as Body | null | undefined)?.prompt_token_ids;
  return Array.isArray(ids) && ids.length > 0 ? ids.map(Number) : null;
}

/** Returns the ids of a chat. @param texts the texts of its messages */
export function chatIds(messages: readonly unknown[], texts: readonly string[], model: string): number[] {
  const tokens = texts.reduce((sum, one) => sum + countTokens(one) + TEMPLATE_TOKENS, 0);
  return promptIds(JSON.stringify([model, messages]), tokens);
}

/** Returns the ids of a text. */
export function textIds(prompt: string, model: string): number[] {
  return promptIds(JSON.stringify([model, prompt]), countTokens(prompt));
}

/** Reads prompts: a text, a list of token ids, or a list of either. */
export function readPrompts(prompt: unknown, model: string): Prompt[] {
  if (typeof prompt === 'string') {
    return prompt === '' ? [] : [{ text: prompt, ids: textIds(prompt, model) }];
  }
  if (!Array.isArray(prompt) || prompt.length === 0) return [];
  if (prompt.every((id) => typeof id === 'number')) return [{ text: '', ids: prompt }];
  return prompt.flatMap((one) => readPrompts(one, model));
}
