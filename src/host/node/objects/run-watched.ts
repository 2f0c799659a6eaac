import type { ObjectDatabase } from '../storage/database.ts';

/** @param isHalfDone part of what it meant to do is written, and not committed yet */
export type Failed = (error: unknown, isHalfDone: boolean) => void;

/**
 * Runs work of an object. Where it throws after it has written, and that is not committed, half of what it meant to do
 * would be kept: it has to be undone, and memory with it.
 */
export function runWatched(
  database: ObjectDatabase,
  work: () => unknown,
  done: (value: unknown) => void,
  failed: Failed,
): void {
  const before = database.written;
  /** The commit that will hold what it wrote before it first waited; null: it wrote nothing. */
  let commit: number | null = null;
  const noteWrites = () => {
    commit = database.written === before ? null : database.commits;
  };
  const threw = (error: unknown) => failed(error, commit === database.commits);
  const finish = (value: unknown) => {
    try {
      done(value);
    } catch (error) {
      threw(error);
    }
  };
  let answer: unknown;
  try {
    answer = work();
    noteWrites();
  } catch (error) {
    noteWrites();
    threw(error);
    return;
  }
  if (answer instanceof Promise) answer.then(finish, threw);
  else finish(answer);
}
