import type { Log } from '../../durable/host.ts';

/** Writes a line of the log through the runtime's console. */
export const log: Log = (level, message, fields) =>
  console.log(JSON.stringify({ level, msg: message, ...fields }));
