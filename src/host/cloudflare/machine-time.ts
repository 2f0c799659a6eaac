import type { Sql } from '../../durable/ports.ts';

/** Smaller corrections of a clock pass by themselves, ms. */
const SET_BACK_MS = 1000;

/** By the clock of the machine, which SQLite reads itself, epoch ms: `Date.now()` of an object does not go back. */
export function machineTime(sql: Sql): number {
  return Number(sql.exec(`SELECT unixepoch('now', 'subsec') * 1000 AS ms`)[0]!.ms);
}

/**
 * Whether the machine's clock was set back so far that the object has to start again: in a running one `now` never
 * goes back, and its timers stand still until the clock is again where it was.
 * @param now epoch ms as the object has it @param machine epoch ms as the machine tells it
 */
export function standsStill(now: number, machine: number): boolean {
  return now - machine > SET_BACK_MS;
}
