import { homedir } from 'node:os';
import { UserError } from './exit-codes.ts';

/**
 * The home folder of this user.
 * @param variable that can name the folder which is looked for there instead
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
