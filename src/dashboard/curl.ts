import { curlCommand } from './curl-command.ts';
import { at } from './router.ts';
import { session } from './session.ts';

/**
 * Returns a command that makes the page's own call, to be pasted into a shell.
 * @param path without a slash first
 */
export function curlOf(path: string): string {
  return curlCommand(at(path), session.value?.asks_for_token === true);
}
