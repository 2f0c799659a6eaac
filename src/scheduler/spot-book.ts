import type { Sql } from '../durable/ports.ts';
import { hoursWithin, type Launch } from './launch.ts';
import type { DisplacedJobs } from './machines.ts';
import { readState, writeState } from './state.ts';

/** The figures of a pool's spot machines of one day. */
export interface SpotDay {
  /** The number of machines that their providers took back. */
  lost: number;
  /** The requests that these ran, and that went on elsewhere or were begun anew. */
  moved: number;
  repeated: number;
  hours: number;
  dollars: number;
}

const NAME = 'spot_days';
const DAY_MS = 24 * 3_600_000;
/** The days that are looked back on, the running one included. */
const DAYS = 7;

/** Days by pool, and within it by their number since 1970. */
type Book = Record<string, Record<string, SpotDay>>;

/**
 * Books a spot machine that has just ended: its hours on the days on which it ran, its loss on the day of its end.
 * @param displaced what became of the jobs that its worker could not finish
 */
export function bookSpot(sql: Sql, launch: Launch, displaced: DisplacedJobs, now: number): void {
  if (!launch.is_spot) return;
  const [today, first] = daysAt(now);
  for (let day = first; day <= today; day += 1) {
    const hours = hoursWithin(launch, day * DAY_MS, Math.min((day + 1) * DAY_MS, now));
    const loss = day === today && launch.cause === 'preempted' ? { lost: 1, ...displaced } : NO_LOSS;
    if (hours === 0 && loss === NO_LOSS) continue;
    add(sql, launch.config_id, day, { ...loss, hours, dollars: hours * launch.price_per_hour }, first);
  }
}

/** Books jobs that went on elsewhere, or were begun anew, only after the machine that they left had ended. */
export function bookDisplaced(sql: Sql, launch: Launch, displaced: DisplacedJobs, now: number): void {
  if (!launch.is_spot || launch.cause !== 'preempted') return;
  const [today, first] = daysAt(now);
  add(sql, launch.config_id, today, { ...NOTHING, ...displaced }, first);
}

/** Adds to a pool's day. Days before the first one are forgotten. */
function add(sql: Sql, configId: string, day: number, more: SpotDay, first: number): void {
  const book = readState<Book>(sql, NAME) ?? {};
  const kept = Object.entries(book).map(([id, days]): [string, Record<string, SpotDay>] => [
    id,
    Object.fromEntries(Object.entries(days).filter(([of]) => Number(of) >= first)),
  ]);
  const next = Object.fromEntries(kept.filter(([, days]) => Object.keys(days).length > 0));
  const days = next[configId] ?? {};
  next[configId] = { ...days, [day]: sum([days[day] ?? NOTHING, more]) };
  writeState(sql, NAME, next);
}

/**
 * Returns what each pool's spot machines did in the newest seven days, those included that still run. A pool without
 * any is left out. @param alive the launches that have not ended
 */
export function spotWeek(sql: Sql, alive: readonly Launch[], now: number): Map<string, SpotDay> {
  const [, first] = daysAt(now);
  const week = new Map<string, SpotDay>();
  for (const [id, days] of Object.entries(readState<Book>(sql, NAME) ?? {})) {
    const within = Object.entries(days).filter(([day]) => Number(day) >= first);
    if (within.length > 0) week.set(id, sum(within.map(([, day]) => day)));
  }
  for (const launch of alive.filter(({ is_spot }) => is_spot)) {
    const hours = hoursWithin(launch, first * DAY_MS, now);
    const running = { ...NO_LOSS, hours, dollars: hours * launch.price_per_hour };
    week.set(launch.config_id, sum([week.get(launch.config_id) ?? NOTHING, running]));
  }
  return week;
}

/** Returns the number of the running day, and that of the first day of the week that ends with it. */
function daysAt(now: number): [today: number, first: number] {
  const today = Math.floor(now / DAY_MS);
  return [today, today - DAYS + 1];
}

const NO_LOSS = { lost: 0, moved: 0, repeated: 0 };
const NOTHING: SpotDay = { ...NO_LOSS, hours: 0, dollars: 0 };

function sum(days: readonly SpotDay[]): SpotDay {
  return days.reduce(
    (all, day) => ({
      lost: all.lost + day.lost,
      moved: all.moved + day.moved,
      repeated: all.repeated + day.repeated,
      hours: all.hours + day.hours,
      dollars: all.dollars + day.dollars,
    }),
    NOTHING,
  );
}
