import type { Log } from '../durable/host.ts';

/** Where lines go: as the runtimes of Cloudflare print them, a JSON object a line. */
let write: Log = (level, message, fields) => console.log(JSON.stringify({ level, msg: message, ...fields }));

/** Writes a line of the gateway's log. */
export const log: Log = (level, message, fields) => write(level, message, fields);

/** From now on lines go there. */
export function logTo(to: Log): void {
  write = to;
}
