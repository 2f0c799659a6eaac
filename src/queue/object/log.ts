import type { Ports } from '../store/ports.ts';

/** A line for the log of the process around workerd, which reads it (workerd/output.ts). */
export const log: Ports['log'] = (level, message, fields) =>
  console.log(JSON.stringify({ level, msg: message, ...fields }));
