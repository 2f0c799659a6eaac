import { machineTime } from './machine-time.ts';
import type { Alarm, Sql } from './ports.ts';

interface Ending {
  ctx: { storage: { sync(): Promise<void> }; abort(reason: string): void };
  sql: Sql;
  alarm: Alarm;
}

/**
 * Ends an object whose clock was set back: the next one has the new time. The alarm starts it, even where nobody calls.
 * @param reason the error that pending calls get
 */
export async function startAgain({ ctx, sql, alarm }: Ending, reason: string): Promise<void> {
  alarm.set(machineTime(sql));
  await ctx.storage.sync();
  ctx.abort(reason);
}
