import { curlCommand } from './curl-command.ts';
import { at } from './router.ts';
import { session } from './session.ts';

/**
 * A command that asks what the page asked, to be pasted into a shell.
 * @param path without a slash first
 */
export function curlOf(path: string): string {
  return curlCommand(at(path), session.value?.asks_for_token === true);
}
