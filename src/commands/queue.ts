import { bindingsOf, type QueueOptions, readQueueSettings } from '../host/node/settings.ts';
import { createLogger, EXIT, endSignals, unlessSignalled } from '../process/index.ts';
import { keepServing } from '../workerd/keep-serving.ts';

/**
 * `worker-vllm queue`: queue and gateway alone, for workers elsewhere.
 * @returns the exit code
 * @throws UserError before anything was started
 */
export async function runQueue(options: QueueOptions, env: NodeJS.ProcessEnv): Promise<number> {
  const settings = await readQueueSettings(options, env);
  const log = createLogger('queue', env);
  const signals = endSignals();
  try {
    const workerd = await unlessSignalled(
      keepServing({ ...settings, bindings: bindingsOf(settings), logger: log }),
      signals,
    );
    if (typeof workerd === 'string') {
      log.info(`${workerd}: the queue ends before it was up`);
      return EXIT.ok;
    }
    const asked = settings.tokens.length > 0 ? 'tokens are asked for' : 'open to this machine only';
    log.info(`listening at ${workerd.url} (${asked}), the dashboard too; state in ${settings.stateDir}`);
    const ended = await Promise.race([signals.first, workerd.exited]);
    if (typeof ended === 'object') {
      log.error(
        `workerd ended unexpectedly (${ended.signal ?? `code ${ended.code}`}); acknowledged jobs are kept`,
      );
      return EXIT.unexpected;
    }
    log.info(`${ended}: workers are told to reconnect; once more to end at once`);
    const forced = await Promise.race([workerd.stop(), signals.second]);
    if (!forced) return EXIT.ok;
    workerd.kill();
    await workerd.exited;
    return EXIT.forced;
  } finally {
    signals.release();
  }
}
