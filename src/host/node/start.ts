import type { LogDestination, Logger } from '../../process/index.ts';
import { type QueueAtWork, startConfiguredQueue } from './serve.ts';
import type { QueueSettings } from './settings.ts';

export interface StartOptions {
  /** Where log lines of other processes go, as JSON; left out: the standard output. */
  lines?: LogDestination;
  /** Ends the start, which fails then. */
  unwanted?: AbortSignal;
}

/**
 * Starts a queue in this process, or with its gateways in processes of their own.
 * @throws UserError when it cannot start
 */
export async function startQueueProcesses(
  settings: QueueSettings,
  logger: Logger,
  options: StartOptions = {},
): Promise<QueueAtWork> {
  if (settings.gateways === 0) return startConfiguredQueue(settings, logger, options.unwanted);
  return (await import('./processes/parent.ts')).startProcesses(settings, logger, options);
}
