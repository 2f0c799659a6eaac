import type { Sql } from '../../../durable/ports.ts';
import type { Problem } from '../../../fleet/view/scaling-attention.ts';
import { span } from '../../../fleet/view/words.ts';
import type { Acknowledgement, Attention } from '../../../protocol/index.ts';

/**
 * The poster posts the end of a problem for this long, ms; after that, a receiver that does not answer never learns of
 * it.
 */
const GONE_TOLD_FOR_MS = 24 * 3_600_000;
/** The most lines of one message. */
const MOST_LINES = 20;

/** A problem that stands, or has just gone. */
interface Entry {
  /** The problem as the list last held it. */
  problem: Problem;
  /** When the problem appeared, epoch ms. */
  came_at: number;
  /** The time since which the problem has been missing from the list, epoch ms; null: it is in the list. */
  missing_since: number | null;
  is_told: boolean;
  acknowledged: Acknowledgement | null;
}

/** The message to post now, and the problems that it is about. */
export interface AlertMessage {
  text: string;
  came: string[];
  gone: string[];
}

/**
 * Decides what of the attention list is reported to a receiver, and knows who has acknowledged what. A problem is
 * reported when it has stood for a while, unless somebody has acknowledged it, and its end is reported too. Each
 * problem that was reported or acknowledged is a row, so that a restart neither reports it again nor forgets who saw to
 * it.
 */
export class Alerts {
  readonly #sql: Sql;
  readonly #settledMs: number;
  readonly #entries: Map<string, Entry>;

  /** @param settledMs a change of a problem that lasts less than this, ms, is not reported */
  constructor(sql: Sql, settledMs: number) {
    this.#sql = sql;
    this.#settledMs = settledMs;
    const rows = [...sql.exec(`SELECT id, entry FROM attention`)];
    this.#entries = new Map(rows.map(({ id, entry }) => [String(id), JSON.parse(String(entry)) as Entry]));
  }

  /** Whether the end of every reported problem has been reported. */
  get isQuiet(): boolean {
    return ![...this.#entries.values()].some(({ is_told }) => is_told);
  }

  /** Notes what needs attention now. @returns the same problems, with who has acknowledged them */
  look(problems: readonly Problem[], now: number): Attention[] {
    const there = new Set(problems.map(({ id }) => id));
    for (const [id, entry] of this.#entries) {
      if (there.has(id)) continue;
      entry.missing_since ??= now;
      const missingMs = now - entry.missing_since;
      if (missingMs >= (entry.is_told ? GONE_TOLD_FOR_MS : this.#settledMs)) this.#forget(id);
    }
    return problems.map((problem) => ({ ...problem, acknowledged: this.#seen(problem, now).acknowledged }));
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
    return { ...entry.problem, acknowledged: entry.acknowledged };
  }

  /** Returns the next message, or null if there is none. @param queueId put in front of each line; null: nothing is */
  message(queueId: string | null, now: number): AlertMessage | null {
    const came: [string, string][] = [];
    const gone: [string, string][] = [];
    for (const [id, entry] of this.#entries) {
      const { problem, is_told, acknowledged, came_at, missing_since } = entry;
      if (missing_since !== null && is_told && now - missing_since >= this.#settledMs) {
        gone.push([id, `*Over* after ${span(missing_since - came_at)}: ${plain(problem.text)}`]);
      } else if (missing_since === null && !is_told && !acknowledged && now - came_at >= this.#settledMs) {
        if (problem.severity === 'info') continue;
        const what = problem.severity === 'error' ? 'Error' : 'Warning';
        came.push([id, `*${what}*: ${plain(`${problem.text} ${problem.advice}`)}`]);
      }
    }
    const told = [...came, ...gone];
    if (told.length === 0) return null;
    const lines = told
      .slice(0, MOST_LINES)
      .map(([, line]) => (queueId === null ? line : `${plain(queueId)}: ${line}`));
    if (told.length > MOST_LINES) lines.push(`… and ${told.length - MOST_LINES} more`);
    const ids = (of: [string, string][]) => of.map(([id]) => id);
    return { text: lines.join('\n'), came: ids(came), gone: ids(gone) };
  }

  /** Notes that the receiver has taken a message. */
  told({ came, gone }: AlertMessage): void {
    for (const id of gone) {
      // A problem that has come back meanwhile is reported as new.
      if (this.#entries.get(id)?.missing_since !== null) this.#forget(id);
    }
    for (const id of came) {
      const entry = this.#entries.get(id);
      if (!entry) continue;
      entry.is_told = true;
      this.#keep(id, entry);
    }
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
    const entry = { problem, came_at: now, missing_since: null, is_told: false, acknowledged: null };
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
    if (entry && (entry.is_told || entry.acknowledged))
      this.#sql.exec(`DELETE FROM attention WHERE id = ?`, id);
  }
}

/**
 * Returns an error's text as the receiver shows it literally: workers choose the words of their errors, and must
 * neither call a channel nor make links.
 */
function plain(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('@', '@\u200b')
    .replace(/\s+/g, ' ');
}
