import { EXIT } from '../../../process/index.ts';
import { readTokenFile } from '../../../state/tokens.ts';
import { startConfiguredQueue } from '../serve.ts';
import { addToken } from '../settings.ts';
import type { ChildParts } from './child.ts';
import { failureOf, type OwnerStart } from './messages.ts';

/** Runs the owner until it is told to stop. @returns the exit code @throws UserError when it cannot start */
export async function runOwner(start: OwnerStart, { parent, log, signals }: ChildParts): Promise<number> {
  const { settings: given, entry } = start;
  const { stateDir, otherTokens } = given;
  // The file may have changed since the parent process read it.
  const settings = { ...given, tokens: [...(await readTokenFile(stateDir)), ...otherTokens] };
  // A token would lock out everybody else where the queue is open to its machine.
  if (settings.tokens.length > 0) addToken(settings, entry);
  const unwanted = new AbortController();
  void Promise.race([signals.first, parent.stopped]).then(() => unwanted.abort());
  const queue = await startConfiguredQueue(settings, log, unwanted.signal);
  await parent.tell({ type: 'up' });
  const ended = await Promise.race([signals.first, parent.stopped, queue.failed]);
  if (ended instanceof Error) {
    const failure = failureOf(ended);
    await parent.tell({ type: 'failed', ...failure });
    return failure.exitCode ?? EXIT.unexpected;
  }
  const forced = await Promise.race([queue.stop(), signals.second]);
  return forced ? EXIT.forced : EXIT.ok;
}
