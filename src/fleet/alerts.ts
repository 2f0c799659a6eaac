import { type deliver as Deliver, isTaken } from '../durable/deliver.ts';
import type { Alarm, Sql } from '../durable/ports.ts';
import { doubling } from '../process/backoff.ts';
import type { Acknowledgement, Attention, FleetView } from '../protocol/index.ts';
import type { Problem } from './view/scaling-attention.ts';
import { span } from './view/words.ts';

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

/** The pause after a post that the receiver did not take, ms; it doubles with each such post in a row. */
const FIRST_PAUSE_MS = 5000;
const LONGEST_PAUSE_MS = 10 * 60_000;

export interface AlertPosterPorts {
  alerts: Alerts;
  /** Returns the fleet as it is now. */
  view(): Promise<FleetView>;
  /** The secret address to which the list is posted; empty: nowhere. */
  url: string;
  /** The queue's id, put in front of each line; null: nothing is. */
  queueId: string | null;
  alarm: Alarm;
  /** The interval at which the list is read while there are workers, ms: many problems arise by time alone. */
  everyMs: number;
  now(): number;
  commit<T>(work: () => T): T;
  /** Posts to the url. */
  post(body: string): ReturnType<typeof Deliver>;
  /** Keeps the object at work until this settles. */
  background(work: Promise<void>): void;
  log(level: 'info' | 'warn', message: string): void;
}

/** Posts what appears in the attention list and what disappears, in Slack's form, until the receiver takes it. */
export class AlertPoster {
  readonly #ports: AlertPosterPorts;
  #failures = 0;
  #retryAt = 0;
  #isPosting = false;

  constructor(ports: AlertPosterPorts) {
    this.#ports = ports;
  }

  /** Starts reading the list regularly; called when the fleet has news. */
  heard(): void {
    const { url, alarm, now, everyMs } = this.#ports;
    if (url !== '' && alarm.get() === null) alarm.set(now() + everyMs);
  }

  /** Reads the list, and posts its news without waiting for the receiver. */
  async postNews(): Promise<void> {
    const { alerts, view, url, queueId, alarm, now, everyMs, background } = this.#ports;
    if (url === '') return alarm.clear();
    // The alarm is set first, so that a failure below does not end the reading.
    alarm.set(now() + everyMs);
    const shown = await view();
    const message = alerts.message(queueId, now());
    if (message === null && isStill(shown) && alerts.isQuiet) return alarm.clear();
    if (message === null || this.#isPosting || now() < this.#retryAt) return;
    background(this.#post(message));
  }

  async #post(message: AlertMessage): Promise<void> {
    const { alerts, post, commit, now, log } = this.#ports;
    this.#isPosting = true;
    const answer = await post(JSON.stringify({ text: message.text }));
    this.#isPosting = false;
    if ('status' in answer && isTaken(answer.status)) {
      if (this.#failures > 0) log('info', 'QUEUE_ALERT_URL takes alerts again');
      this.#failures = 0;
      return commit(() => alerts.told(message));
    }
    this.#failures += 1;
    const pauseMs = doubling(FIRST_PAUSE_MS, LONGEST_PAUSE_MS, this.#failures);
    this.#retryAt = now() + pauseMs;
    // The log names neither the address, which lets anybody post there, nor the runtime's message, which may hold the
    // address.
    const why = 'status' in answer ? `it answered ${answer.status}` : 'it did not answer';
    log('warn', `QUEUE_ALERT_URL does not take alerts: ${why}; trying again in ${pauseMs / 1000} s`);
  }
}

/** Returns whether nothing needs attention and time alone will not change that. */
function isStill({ attention, workers, scaling }: FleetView): boolean {
  const isOver = ({ state }: FleetView['workers'][number]) => state === 'stopped' || state === 'lost';
  return attention.length === 0 && scaling === null && workers.every(isOver);
}
