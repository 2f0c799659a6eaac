/** Begins the text of every such error, by which the log tells it from a fault of the program. */
export const BROKEN_OFF = 'response broken off: ';

/**
 * The error that breaks a response off on purpose, whose status has been sent and whose body is not an answer. The
 * runtime prints it as an uncaught exception, although nothing failed that operators could mend.
 */
export function brokenOff(why: string): Error {
  return new Error(BROKEN_OFF + why);
}
