import type { AnswerIdentity, MovePlan, Stage } from '../protocol/index.ts';

/** An answer that broke off between two of its events, with everything that its rest is made from. */
export interface Cut {
  plan: MovePlan;
  identity: AnswerIdentity;
  /** The token ids of the prompt, followed by those that the caller has been given. */
  ids: readonly number[];
  /** The number of these ids that are the prompt's. */
  promptTokens: number;
  stage: Stage;
}

/** Returns the number of tokens that the caller has been given. */
export function tokensGiven({ ids, promptTokens }: Cut): number {
  return ids.length - promptTokens;
}
