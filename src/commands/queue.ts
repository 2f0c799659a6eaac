import { type QueueOptions, readQueueSettings } from '../host/node/settings.ts';
import { startQueueProcesses } from '../host/node/start.ts';
import { createLogger, EXIT, endSignals, UserError, unlessSignalled } from '../process/index.ts';
import { isEverywhere } from '../process/network.ts';

/**
 * Runs `worker-vllm queue`: queue and gateway alone, for workers elsewhere.
 * @returns the exit code
 * @throws UserError before anything was started
 */
export async function runQueue(options: QueueOptions, env: NodeJS.ProcessEnv): Promise<number> {
  const signals = endSignals();
  try {
    const settings = await readQueueSettings(options, env);
    const log = createLogger('queue', env);
    const unwanted = new AbortController();
    void signals.first.then(() => unwanted.abort());
    const queue = await unlessSignalled(
      startQueueProcesses(settings, log, { unwanted: unwanted.signal }),
      signals,
    );
    if (typeof queue === 'string') {
      log.info(`${queue}: the queue ends before it was up`);
      return EXIT.ok;
    }
    const asked = settings.tokens.length > 0 ? 'tokens are asked for' : 'open to this machine only';
    const also = isEverywhere(settings.host) ? ' and at every other address of this machine' : '';
    const by = settings.gateways > 0 ? `, by ${settings.gateways} gateways` : '';
    log.info(
      `listening at ${queue.url}${also}${by} (${asked}), the dashboard too; state in ${settings.stateDir}`,
    );
    const ended = await Promise.race([signals.first, queue.failed]);
    if (typeof ended === 'object') {
      log.error(`the queue ends: ${ended.message}`);
      return ended instanceof UserError ? ended.exitCode : EXIT.unexpected;
    }
    log.info(`${ended}: workers are told to reconnect; once more to end at once`);
    const forced = await Promise.race([queue.stop(), signals.second]);
    return forced ? EXIT.forced : EXIT.ok;
  } finally {
    signals.release();
  }
}
