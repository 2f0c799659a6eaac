import type { ObjectDatabase } from '../storage/database.ts';

/** Handles a failure. @param isHalfDone the work has written a part, which is not committed yet */
export type Failed = (error: unknown, isHalfDone: boolean) => void;

/**
 * Runs work of an object. If it throws after uncommitted writes, half of its work would be stored: `failed` is then
 * called with `isHalfDone`, and the object has to be undone, including its memory.
 */
export function runWatched(
  database: ObjectDatabase,
  work: () => unknown,
  done: (value: unknown) => void,
  failed: Failed,
): void {
  const before = database.written;
  /** The commit that will hold the writes made before the work first waited; null: there were none. */
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
