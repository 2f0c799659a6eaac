import type { Log } from '../../durable/host.ts';
import type { Logger } from '../../process/index.ts';

/** Returns the log of objects and gateway as lines of a logger; without one they go nowhere. */
export function logOf(logger: Logger | undefined): Log {
  return (level, message, fields = {}) => logger?.[level](fields, message);
}
