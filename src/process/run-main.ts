import { EXIT, UserError } from './exit-codes.ts';
import { sourceStack } from './source-stack.ts';

/**
 * Runs a program and exits with its code at once: a stuck child must not keep the process alive.
 * For a UserError only the message is printed, for any other error its stack.
 */
export async function runMain(run: () => Promise<number>): Promise<never> {
  process.once('uncaughtException', endWith);
  try {
    process.exit(await run());
  } catch (error) {
    endWith(error);
  }
}

/** Prints what was thrown, and exits with the code that it stands for. */
export function endWith(error: unknown): never {
  const isMistake = error instanceof UserError;
  process.stderr.write(`${isMistake ? error.message : sourceStack(error)}\n`);
  process.exit(isMistake ? error.exitCode : EXIT.unexpected);
}
