import type { Log } from '../../durable/host.ts';

/** A line for the log of the process around workerd, which reads it (workerd/output.ts). */
export const log: Log = (level, message, fields) =>
  console.log(JSON.stringify({ level, msg: message, ...fields }));
