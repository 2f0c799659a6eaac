import type { SeenJob } from './operations.ts';

/** The limits of the token by which the proof asks for chats. */
export interface Limits {
  running: number;
  tokensPerMinute: number;
}

/** A job as the queue shows it once everything has come to rest. */
export interface FinalJob extends SeenJob {
  /** The steps of its ledger, in order. */
  steps: readonly { step: string; fence: number }[];
}

/** The state once everything has come to rest. */
export interface FinalState {
  /** Every job that some client knows of, by its id; null: the queue does not know it. */
  jobs: ReadonlyMap<string, FinalJob | null>;
  /** The usage of the tokens by which jobs are stored, and of those by which chats are asked. */
  usage: { jobs: { requests: number; output: number }; chats: { requests: number; output: number } };
  /** The entries of the journal that are still there. */
  journal: readonly { seq: number; epoch: number }[];
  /** Tables in which the files of owner and follower differ. */
  differences: readonly string[];
}
