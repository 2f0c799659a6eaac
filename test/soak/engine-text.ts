import { seedFrom, tokenSource } from '../../src/simulator/text.ts';

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
  return textOf(seedFrom(JSON.stringify([null, messages, model])), tokens);
}

/** The choices of a text completion that was asked with `echo`, in order. */
export function echoedTexts(prompt: string, choices: number, tokens: number, model: string): string[] {
  const seed = seedFrom(JSON.stringify([null, prompt, model]));
  return Array.from({ length: choices }, (_, choice) => prompt + textOf(seed + choice, tokens));
}

function textOf(seed: number, tokens: number): string {
  const source = tokenSource(seed);
  return Array.from({ length: tokens }, () => source.next()).join('');
}
