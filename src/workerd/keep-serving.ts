import { setTimeout as sleep } from 'node:timers/promises';
import type { QueueSettings } from '../host/node/settings.ts';
import { followTokens } from '../state/follow-tokens.ts';
import { descriptorLimit, exhaustedText } from './descriptors.ts';
import { type RunningWorkerd, startWorkerd, type WorkerdExit, type WorkerdOptions } from './process.ts';

/** Between the end and the next start, so that a crowd that stays does not make this a busy loop, ms. */
const PAUSE_MS = 1000;

/** What is served, and the tokens that it began with. */
type ServedQueue = WorkerdOptions & Pick<QueueSettings, 'tokens' | 'otherTokens'>;

/**
 * `startWorkerd`, and once more at the same port each time that it has run out of descriptors: that is the doing of
 * its clients, not a fault that a second start would meet again.
 * Tokens of the state folder that are made or taken away meanwhile are made known to it.
 * @returns the queue as if it were one process; `exited` is the end that is not followed by a start
 */
export async function keepServing(given: ServedQueue): Promise<RunningWorkerd> {
  let options: WorkerdOptions = given;
  let current = await startWorkerd(options);
  let isStopping = false;
  const setTokens = async (text: string) => {
    options = { ...options, bindings: { ...options.bindings, TOKENS: text } };
    await current.setTokens(text);
  };
  const stopFollowing = followTokens(
    given.stateDir,
    async (tokens) => {
      if (given.tokens.length > 0) await setTokens(JSON.stringify([...tokens, ...given.otherTokens]));
      else if (tokens.length > 0)
        given.logger?.warn('tokens were made: this queue, which has none, asks for them after a restart');
    },
    given.logger,
  );
  const { url, port } = current;

  async function untilTheEnd(): Promise<WorkerdExit> {
    for (;;) {
      const exit = await current.exited;
      if (!exit.outOfDescriptors || isStopping) return exit;
      options.logger?.error(exhaustedText(descriptorLimit()));
      await sleep(PAUSE_MS);
      if (isStopping) return exit;
      try {
        current = await startWorkerd({ ...options, port });
      } catch (error) {
        options.logger?.error((error as Error).message);
        return exit;
      }
      options.logger?.info(`listening at ${url} again`);
      if (isStopping) void current.stop();
    }
  }

  const exited = untilTheEnd().finally(stopFollowing);
  return {
    url,
    port,
    get pid() {
      return current.pid;
    },
    exited,
    setTokens,
    stop: async () => {
      isStopping = true;
      await current.stop();
      await exited;
    },
    kill: () => {
      isStopping = true;
      current.kill();
    },
  };
}
