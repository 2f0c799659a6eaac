import type { FinalState, Limits } from './final-state.ts';
import { type Line, operationsOf } from './operations.ts';
import { brokenChats, tooManyAtOnce, tooManyTokens, wrongChats } from './promises/chats.ts';
import { fencesOfJobs, fencesOfQueue } from './promises/fences.ts';
import { changedJobs, idsTwice, lostJobs, refusedJobs, settledTwice, wrongJobs } from './promises/jobs.ts';
import { wrongUsage, wrongUsageReads } from './promises/usage.ts';

/** The violations that were found, by promise; all lists are empty if every promise was kept. */
export type Verdict = Record<(typeof PROMISES)[number], string[]>;

export const PROMISES = [
  'acknowledged jobs that are lost',
  'refused jobs that are there',
  'wrong answers',
  'begun answers that broke off',
  'jobs settled twice',
  'jobs that changed after their end',
  'fences that do not rise',
  'ids given twice',
  'limits exceeded',
  'usage wrong',
  'journal out of order',
  'owner and follower differ',
] as const;

/** Checks what clients saw, and what is there at the end, against what the queue promises. */
export function check(lines: readonly Line[], final: FinalState, limits: Limits): Verdict {
  const operations = operationsOf(lines);
  return {
    'acknowledged jobs that are lost': lostJobs(operations, final),
    'refused jobs that are there': refusedJobs(operations, final),
    'wrong answers': [...wrongJobs(operations, final), ...wrongChats(operations)],
    'begun answers that broke off': brokenChats(operations, lines),
    'jobs settled twice': settledTwice(final),
    'jobs that changed after their end': changedJobs(operations, final),
    'fences that do not rise': [...fencesOfJobs(final), ...fencesOfQueue(operations, final)],
    'ids given twice': idsTwice(operations),
    'limits exceeded': [...tooManyAtOnce(operations, limits), ...tooManyTokens(operations, lines, limits)],
    'usage wrong': [...wrongUsage(operations, final), ...wrongUsageReads(operations)],
    'journal out of order': journalOrder(final),
    'owner and follower differ': [...final.differences],
  };
}

function journalOrder({ journal }: FinalState): string[] {
  return journal.flatMap(({ seq, epoch }, at) => {
    const before = journal[at - 1];
    if (!before || (seq === before.seq + 1 && epoch >= before.epoch)) return [];
    return [`entry ${seq} of epoch ${epoch} follows entry ${before.seq} of epoch ${before.epoch}`];
  });
}
