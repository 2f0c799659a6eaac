/**
 * Makes the error that deliberately breaks off a response whose status was sent and whose body is not an answer.
 * Cloudflare's runtime prints it as an uncaught exception, although nothing failed that operators could mend.
 */
export function brokenOff(why: string): Error {
  return new Error(`response broken off: ${why}`);
}
