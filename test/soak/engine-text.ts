import { chatIds, textIds } from '../../src/simulator/fields.ts';
import { tokenSource } from '../../src/simulator/text.ts';

/**
 * What the soak's engines say. It depends on the request and on the name of the engine's model alone, and each
 * worker's engine has a name of its own: an answer pieced together from two workers is found out.
 */

export interface Message {
  role: 'user';
  content: string;
}

/** More than a frame holds: what carries it goes by reference. */
export const LARGE_TEXT = 'Consider this well. '.repeat(15_000);

/** The model that this worker's engine serves. */
export function modelOf(workerId: string): string {
  return `tiny-${workerId}`;
}

export function chatText(messages: readonly Message[], tokens: number, model: string): string {
  return textOf(chatPrompt(messages, model), null, tokens);
}

/** Ids of such a chat. */
export function chatPrompt(messages: readonly Message[], model: string): number[] {
  const texts = messages.map(({ content }) => content);
  return chatIds(messages, texts, model);
}

/** The choices of a text completion that was asked with `echo`, in order. */
export function echoedTexts(prompt: string, choices: number, tokens: number, model: string): string[] {
  const ids = textIds(prompt, model);
  // The simulator salts all choices but the first.
  return Array.from({ length: choices }, (_, choice) => prompt + textOf(ids, choice || null, tokens));
}

function textOf(ids: readonly number[], salt: number | null, tokens: number): string {
  const source = tokenSource(ids, salt);
  return Array.from({ length: tokens }, () => source.next().text).join('');
}
