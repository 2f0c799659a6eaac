import type { Log } from '../durable/host.ts';

/** Writes a line as a JSON object, which the runtimes of Cloudflare print; `logTo` replaces this. */
let write: Log = (level, message, fields) => console.log(JSON.stringify({ level, msg: message, ...fields }));

/** Writes a line of the gateway's log. */
export const log: Log = (level, message, fields) => write(level, message, fields);

/** Sends all later lines to another log. */
export function logTo(to: Log): void {
  write = to;
}
