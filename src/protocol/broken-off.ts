/** Begins the text of every error of `brokenOff`, by which the log tells it from a fault of the program. */
export const BROKEN_OFF = 'response broken off: ';

/**
 * Makes the error that breaks off on purpose a response whose status was sent and whose body is not an answer. The
 * runtime prints it as an uncaught exception, although nothing failed that operators could mend.
 */
export function brokenOff(why: string): Error {
  return new Error(BROKEN_OFF + why);
}
