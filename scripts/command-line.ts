import { existsSync } from 'node:fs';
import { Command, InvalidArgumentError } from 'commander';
import { EXIT } from '../src/process/exit-codes.ts';

/**
 * Makes a script's command line: `--help` prints its options, and a wrong option ends the script with a message and 2.
 * @param call the words before the options, such as `npm run soak --`
 */
export function commandLine(call: string, description: string): Command {
  return new Command(call)
    .description(description)
    .showHelpAfterError(`${call} --help tells the options.`)
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? EXIT.ok : EXIT.configuration));
}

/** Parses an option that takes a whole number. */
export function wholeFrom(least: number): (text: string) => number {
  return (text) => {
    if (!/^\d+$/.test(text) || Number(text) < least)
      throw new InvalidArgumentError(`Expected a whole number from ${least}.`);
    return Number(text);
  };
}

/** Parses an option that takes the path of a file to read. */
export function existingFile(path: string): string {
  if (!existsSync(path)) throw new InvalidArgumentError('There is no such file.');
  return path;
}
