import type { Log } from '../../durable/host.ts';

/** A line of the log, as the runtime prints it. */
export const log: Log = (level, message, fields) =>
  console.log(JSON.stringify({ level, msg: message, ...fields }));
