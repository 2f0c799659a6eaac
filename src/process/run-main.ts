import { EXIT, UserError } from './exit-codes.ts';
import { useProxies } from './outgoing.ts';
import { secretHider } from './secrets.ts';
import { sourceStack } from './source-stack.ts';

/**
 * Runs a program, which uses the proxies of its environment, and exits with the program's code at once: a stuck child
 * must not keep the process alive. For a UserError only the message is printed, for any other error its stack.
 */
export async function runMain(run: () => Promise<number>): Promise<never> {
  process.once('uncaughtException', endWith);
  try {
    await useProxies(process.env);
    process.exit(await run());
  } catch (error) {
    endWith(error);
  }
}

/** Prints what was thrown, and exits with the code that it stands for. */
export function endWith(error: unknown): never {
  const isMistake = error instanceof UserError;
  const text = isMistake ? error.message : sourceStack(error);
  process.stderr.write(`${secretHider(process.env)(text)}\n`);
  process.exit(isMistake ? error.exitCode : EXIT.unexpected);
}
