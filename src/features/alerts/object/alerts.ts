import type { Sql } from '../../../durable/ports.ts';
import type { Problem } from '../../../fleet/view/scaling-attention.ts';
import { type Acknowledgement, type Attention, matchesPattern } from '../../../protocol/index.ts';
import type { AlertReceiver } from '../../../settings/alert-receivers.ts';
import type { Mutes } from './mutes.ts';

/**
 * A receiver is told the end of a problem for this long, ms; after that, one that does not answer never learns of it.
 */
const GONE_TOLD_FOR_MS = 24 * 3_600_000;

/** The problem as a receiver was last told of it. */
interface Told {
  at: number;
  severity: Problem['severity'];
}

/** A problem that stands, or has just gone. */
interface Entry {
  /** The problem as the list last held it. */
  problem: Problem;
  /** When the problem appeared, epoch ms. */
  came_at: number;
  /** The time since which the problem has been missing from the list, epoch ms; null: it is in the list. */
  missing_since: number | null;
  /** The last report to each receiver, by its name. */
  told: Record<string, Told>;
  acknowledged: Acknowledgement | null;
  /** The end of a mute of the problem, epoch ms: until then nobody was told of it. */
  muted_until?: number;
}

/** An entry as version 29 wrote it, which knew one receiver. */
interface EntryBefore extends Omit<Entry, 'told'> {
  is_told?: boolean;
  told?: Record<string, Told>;
}

/**
 * The news of a problem for a receiver. `came`: it stands, and the receiver has not been told; `worse`: its
 * severity has risen since; `again`: it still stands; `over`: it has gone.
 */
export interface News {
  what: 'came' | 'worse' | 'again' | 'over';
  problem: Problem;
  came_at: number;
  /** Since when the problem is missing, epoch ms; null: it stands. */
  over_at: number | null;
  /** The last report to the receiver; null: there was none. */
  before: Told | null;
}

/** The rules of one receiver. */
export type ReceiverRules = Pick<AlertReceiver, 'name' | 'severity' | 'pools' | 'kinds' | 'ends'> & {
  /** The receiver is told again after this long, ms; null: never. */
  repeat_ms: number | null;
  /** Whether it is told again of a problem that somebody has acknowledged too, lest it takes the problem for over. */
  repeats_acknowledged: boolean;
};

/**
 * Decides what of the attention list is reported to each receiver, and knows who has acknowledged what. A problem is
 * reported when it has stood for a while, unless somebody has acknowledged or muted it, and its end is reported too.
 * Each problem that was reported or acknowledged is a row, so that a restart neither reports it again nor forgets who
 * saw to it.
 */
export class Alerts {
  readonly #sql: Sql;
  readonly #mutes: Mutes;
  readonly #settledMs: number;
  readonly #entries: Map<string, Entry>;

  /**
   * @param receivers the names of all receivers: what others were told is forgotten
   * @param settledMs a change of a problem that lasts less than this, ms, is not reported
   */
  constructor(sql: Sql, mutes: Mutes, receivers: readonly string[], settledMs: number) {
    this.#sql = sql;
    this.#mutes = mutes;
    this.#settledMs = settledMs;
    const rows = [...sql.exec(`SELECT id, entry FROM attention`)];
    this.#entries = new Map(
      rows.map(({ id, entry }) => [String(id), entryOf(JSON.parse(String(entry)) as EntryBefore, receivers)]),
    );
  }

  /** Whether every receiver knows the end of every problem that it was told of. */
  get isQuiet(): boolean {
    return ![...this.#entries.values()].some(isTold);
  }

  /** Returns how many problems a receiver was told of whose end it was not told of. */
  standing(receiver: string): number {
    return [...this.#entries.values()].filter(({ told }) => told[receiver]).length;
  }

  /** Notes what needs attention now. @returns the same problems, with what people did about them */
  look(problems: readonly Problem[], now: number): Attention[] {
    const there = new Set(problems.map(({ id }) => id));
    for (const [id, entry] of this.#entries) {
      if (there.has(id)) continue;
      entry.missing_since ??= now;
      // An end that a mute holds back is told when the mute is over.
      entry.muted_until = this.#mutes.until(entry.problem, now) ?? entry.muted_until ?? 0;
      const missingMs = now - Math.max(entry.missing_since, isTold(entry) ? entry.muted_until : 0);
      if (missingMs >= (isTold(entry) ? GONE_TOLD_FOR_MS : this.#settledMs)) this.#forget(id);
    }
    return problems.map((problem) => this.#shown(this.#seen(problem, now), now));
  }

  /**
   * Notes who has acknowledged a problem. @returns the problem as the list now shows it, or null if it is not in the
   * list
   */
  acknowledge(id: string, by: string | null, now: number): Attention | null {
    const entry = this.#entries.get(id);
    if (!entry || entry.missing_since !== null) return null;
    entry.acknowledged ??= { by, at: now };
    this.#keep(id, entry);
    return this.#shown(entry, now);
  }

  /** Returns what a receiver is to be told now, in the order of the list. */
  news(receiver: ReceiverRules, now: number): News[] {
    return [...this.#entries.values()].flatMap((entry) => {
      const what = this.#whatOf(entry, receiver, now);
      if (what === null) return [];
      const { problem, came_at, missing_since, told } = entry;
      return [{ what, problem, came_at, over_at: missing_since, before: told[receiver.name] ?? null }];
    });
  }

  /** Notes that a receiver has taken news. */
  told(receiver: string, news: readonly News[], now: number): void {
    for (const { what, problem } of news) {
      const entry = this.#entries.get(problem.id);
      if (!entry) continue;
      if (what !== 'over') {
        entry.told[receiver] = { at: now, severity: problem.severity };
        this.#keep(problem.id, entry);
        continue;
      }
      delete entry.told[receiver];
      if (isTold(entry) || (entry.missing_since === null && entry.acknowledged)) {
        this.#keep(problem.id, entry);
        continue;
      }
      this.#sql.exec(`DELETE FROM attention WHERE id = ?`, problem.id);
      // A problem that has come back meanwhile is reported as new.
      if (entry.missing_since !== null) this.#entries.delete(problem.id);
    }
  }

  #whatOf(entry: Entry, receiver: ReceiverRules, now: number): News['what'] | null {
    const { problem, came_at, missing_since, acknowledged } = entry;
    const before = entry.told[receiver.name];
    if (this.#mutes.until(problem, now) !== null) return null;
    if (missing_since !== null) {
      return before && now - missing_since >= this.#settledMs ? 'over' : null;
    }
    const isSeenTo = acknowledged !== null || !concerns(receiver, problem);
    if (!before) return isSeenTo || now - came_at < this.#settledMs ? null : 'came';
    if (!isSeenTo && before.severity === 'warning' && problem.severity === 'error') return 'worse';
    const repeats = !isSeenTo || receiver.repeats_acknowledged;
    return repeats && isDue(before, receiver, now) ? 'again' : null;
  }

  #shown({ problem, acknowledged }: Entry, now: number): Attention {
    return { ...problem, acknowledged, muted_until: this.#mutes.until(problem, now) };
  }

  #seen(problem: Problem, now: number): Entry {
    const before = this.#entries.get(problem.id);
    const isBack = before && before.missing_since !== null && now - before.missing_since >= this.#settledMs;
    if (before && !isBack) {
      before.problem = problem;
      before.missing_since = null;
      return before;
    }
    if (before) this.#forget(problem.id);
    const entry = { problem, came_at: now, missing_since: null, told: {}, acknowledged: null };
    this.#entries.set(problem.id, entry);
    return entry;
  }

  #keep(id: string, entry: Entry): void {
    this.#sql.exec(
      `INSERT INTO attention (id, entry) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET entry = excluded.entry`,
      id,
      JSON.stringify(entry),
    );
  }

  #forget(id: string): void {
    const entry = this.#entries.get(id);
    this.#entries.delete(id);
    if (entry && (isTold(entry) || entry.acknowledged))
      this.#sql.exec(`DELETE FROM attention WHERE id = ?`, id);
  }
}

function entryOf({ is_told, ...entry }: EntryBefore, receivers: readonly string[]): Entry {
  const before = { at: entry.came_at, severity: entry.problem.severity };
  const told = entry.told ?? (is_told ? { QUEUE_ALERT_URL: before } : {});
  return {
    ...entry,
    told: Object.fromEntries(Object.entries(told).filter(([name]) => receivers.includes(name))),
  };
}

function isTold({ told }: Entry): boolean {
  return Object.keys(told).length > 0;
}

function isDue(before: Told, { repeat_ms }: ReceiverRules, now: number): boolean {
  return repeat_ms !== null && now - before.at >= repeat_ms;
}

/** Returns whether a receiver is told of problems like this one. */
function concerns(
  { severity, pools, kinds }: ReceiverRules,
  { config_id, code, ...problem }: Problem,
): boolean {
  // Information is a caller's own mistake, or what goes on by itself.
  if (problem.severity === 'info' || (severity === 'error' && problem.severity !== 'error')) return false;
  if (kinds && !(kinds as readonly string[]).includes(code)) return false;
  return !pools || (config_id !== null && pools.some((pool) => matchesPattern(pool, config_id)));
}
