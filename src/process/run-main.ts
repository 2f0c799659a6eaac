import { EXIT, UserError } from './exit-codes.ts';

/**
 * Runs a program and exits with its code at once: a stuck child must not keep the process alive.
 * For a UserError only the message is printed, for anything else the stack.
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
