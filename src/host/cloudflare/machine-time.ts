import type { Sql } from '../../durable/ports.ts';

/** An object lives on after corrections of the clock up to this many ms: they pass by themselves. */
const SET_BACK_MS = 1000;

/** Returns the machine's time, epoch ms. SQLite reads it itself; `Date.now()` of an object does not go back. */
export function machineTime(sql: Sql): number {
  return Number(sql.exec(`SELECT unixepoch('now', 'subsec') * 1000 AS ms`)[0]!.ms);
}

/**
 * Returns whether the machine's clock was set back so far that the object has to start again: in a running object `now`
 * never goes back, and its timers stand still until the machine's clock is again where it was.
 * @param now the object's time, epoch ms @param machine the machine's time, epoch ms
 */
export function standsStill(now: number, machine: number): boolean {
  return now - machine > SET_BACK_MS;
}
