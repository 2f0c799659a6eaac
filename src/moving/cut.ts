import type { AnswerIdentity, MovePlan, Stage } from '../protocol/index.ts';

/** An answer that broke off between two of its events, with all that its rest is made of. */
export interface Cut {
  plan: MovePlan;
  identity: AnswerIdentity;
  /** Of the prompt, then of what its caller has been given. */
  ids: readonly number[];
  /** How many of them are the prompt's. */
  promptTokens: number;
  stage: Stage;
}

/** Tokens that the caller has been given. */
export function tokensGiven({ ids, promptTokens }: Cut): number {
  return ids.length - promptTokens;
}
