import { EXIT, UserError } from './exit-codes.ts';

/**
 * Runs a program and ends the process with its exit code, at once: a child that is stuck must not keep it.
 * Of a user's mistake only the message is printed, of anything else the stack.
 */
export async function runMain(run: () => Promise<number>): Promise<never> {
  try {
    process.exit(await run());
  } catch (error) {
    const isMistake = error instanceof UserError;
    process.stderr.write(`${isMistake ? error.message : (error as Error).stack}\n`);
    process.exit(isMistake ? error.exitCode : EXIT.unexpected);
  }
}
