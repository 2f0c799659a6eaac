import { homedir } from 'node:os';
import { UserError } from './exit-codes.ts';

/**
 * Returns the home folder of this user.
 * @param variable name of the variable that can set the folder which callers look for there
 * @throws UserError when this user has none
 */
export function homeFolder(variable: string): string {
  try {
    return homedir();
  } catch {
    throw new UserError(
      `This user has no home folder: HOME is not set, and /etc/passwd has no entry for it. Set ${variable} to a folder, or HOME.`,
    );
  }
}
