import type { Alarm, Sql } from '../durable/ports.ts';

/** Posts of this many ms are sent together. */
const GATHER_MS = 100;
/** The most posts on their way at once. */
const MOST_AT_ONCE = 32;
/** The most posts on their way to one host. */
const MOST_TO_HOST = 8;
/** The most posts on their way to a host that did not take its last one. */
const MOST_TO_FAILING = 1;
/** The most hosts looked at in one event. */
const BITE_HOSTS = 100;
/** A post without an outcome after this many ms was lost with its process: its own limit is much shorter. */
const AGAIN_MS = 60_000;
/** Pauses before each further try, ms; sixteen hours in all. */
const PAUSES_MS = [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800].map((seconds) => seconds * 1000);
/** The most posts kept at a time: a receiver that is gone must not fill the disk. */
const MOST_KEPT = 100_000;

/** While posts wait, the alarm rings no later than this after it was set for something else, ms. */
const ARM_MS = 1000;

/** The column of an object's table that says what a post tells of. */
type AboutColumn = 'job_id' | 'event';

/** A post; its id is the same however often it is tried. */
export interface Webhook {
  id: string;
  /** The subject of the post: the id of a job, or the whole text of an event. */
  about: string;
  /** The host of the post's address, port included. */
  host: string;
  url: string;
  /** The number of tries that failed. */
  tries: number;
}

/** The storage and clock with which the posts of an object are kept. */
export interface OutboxPorts {
  sql: Sql;
  alarm: Alarm;
  /** Returns the time, epoch ms. */
  now(): number;
  /** Returns a number of 0..1. */
  random(): number;
  log(level: 'info' | 'warn' | 'error', message: string, fields?: Record<string, unknown>): void;
}

/**
 * Posts that wait for their receivers, in a table of their object. What is to be posted is written in the commit of
 * what it tells of, and sent again and again until the receiver takes it or PAUSES_MS are over. Each host has its own
 * share of the posts on their way, so that a host that does not answer holds up no other.
 */
export class WebhookOutbox {
  readonly #ports: OutboxPorts;
  readonly #column: AboutColumn;
  readonly #onTheirWay = new Map<string, number>();
  /** Hosts that did not take their last post. */
  readonly #failing = new Set<string>();
  #kept: number;
  #isFull = false;
  /** The last host that was looked at; the next look goes on after it. */
  #host = '';

  /** @param column the column of the table that says what a post tells of */
  constructor(ports: OutboxPorts, column: AboutColumn) {
    this.#ports = ports;
    this.#column = column;
    this.#kept = countWebhooks(ports.sql);
    if (this.#kept > 0) this.#due(ports.now());
  }

  /** Writes a post. */
  add({ id, about, url }: Pick<Webhook, 'id' | 'about' | 'url'>): void {
    const { sql, log, now } = this.#ports;
    if (this.#kept >= MOST_KEPT) {
      if (!this.#isFull) log('error', 'too many webhooks wait for their receivers; new ones are dropped');
      this.#isFull = true;
      return;
    }
    this.#kept += 1;
    insertWebhook(sql, this.#column, { id, about, host: new URL(url).host, url }, now());
    this.#due(now() + GATHER_MS);
  }

  /** Sets the alarm again, if it was set for something else while posts wait. */
  arm(): void {
    if (this.#kept > 0) this.#due(Math.max(nextDue(this.#ports.sql), this.#ports.now() + ARM_MS));
  }

  /** Takes the posts that are due now. The caller sends them after the commit. */
  take(): Webhook[] {
    if (this.#kept === 0) return [];
    const { sql } = this.#ports;
    const now = this.#ports.now();
    const taken: Webhook[] = [];
    let isAround = this.#host === '';
    for (let looks = 0; looks < BITE_HOSTS; looks += 1) {
      const next = hostAfter(sql, this.#host);
      this.#host = next?.host ?? '';
      if (next === null) {
        if (isAround) return taken;
        isAround = true;
        continue;
      }
      const free = this.#freeFor(next.host);
      if (free <= 0) continue;
      if (next.due_at > now) {
        this.#due(next.due_at);
        continue;
      }
      const posts = takeWebhooks(sql, this.#column, {
        host: next.host,
        now,
        againAt: now + AGAIN_MS,
        limit: free,
      });
      this.#onTheirWay.set(next.host, (this.#onTheirWay.get(next.host) ?? 0) + posts.length);
      taken.push(...posts);
      this.#due(now + AGAIN_MS);
    }
    // More hosts are left to look at.
    this.#due(now + GATHER_MS);
    return taken;
  }

  /** Deletes a post that the receiver took, or that is not to be sent any more. */
  done({ id, host }: Webhook): void {
    this.#arrived(host);
    this.#failing.delete(host);
    this.#forget(id);
  }

  /** Postpones a post that the receiver did not take, or gives it up. */
  failed(webhook: Webhook, reason: string): void {
    const { id, about, host } = webhook;
    const { sql, log, now, random } = this.#ports;
    this.#arrived(host);
    this.#failing.add(host);
    const tries = webhook.tries + 1;
    const pauseMs = PAUSES_MS[webhook.tries];
    if (pauseMs === undefined) {
      log('warn', 'webhook given up', { [this.#column]: about, host, tries, reason });
      this.#forget(id);
      return;
    }
    log('info', 'webhook not delivered; trying again', {
      [this.#column]: about,
      host,
      tries,
      reason,
      seconds: pauseMs / 1000,
    });
    const dueAt = now() + Math.round(pauseMs * (1 + random() / 10));
    postponeWebhook(sql, id, tries, dueAt);
    this.#due(dueAt);
  }

  #arrived(host: string): void {
    const left = (this.#onTheirWay.get(host) ?? 1) - 1;
    if (left === 0) this.#onTheirWay.delete(host);
    else this.#onTheirWay.set(host, left);
    // Another post may have waited for the place that is free now.
    this.#due(this.#ports.now() + GATHER_MS);
  }

  #forget(id: string): void {
    if (deleteWebhook(this.#ports.sql, id)) this.#kept -= 1;
    this.#isFull = false;
    if (this.#kept === 0) this.#failing.clear();
  }

  #due(atMs: number): void {
    const { alarm } = this.#ports;
    const armed = alarm.get();
    if (armed === null || armed > atMs) alarm.set(atMs);
  }

  #freeFor(host: string): number {
    let all = 0;
    for (const count of this.#onTheirWay.values()) all += count;
    const most = this.#failing.has(host) ? MOST_TO_FAILING : MOST_TO_HOST;
    return Math.min(most - (this.#onTheirWay.get(host) ?? 0), MOST_AT_ONCE - all);
  }
}

function insertWebhook(sql: Sql, column: AboutColumn, webhook: Omit<Webhook, 'tries'>, dueAt: number): void {
  sql.exec(
    `INSERT INTO webhooks (id, ${column}, host, url, due_at) VALUES (?, ?, ?, ?, ?)`,
    webhook.id,
    webhook.about,
    webhook.host,
    webhook.url,
    dueAt,
  );
}

function countWebhooks(sql: Sql): number {
  return Number(sql.exec(`SELECT count(*) AS n FROM webhooks`)[0]?.n ?? 0);
}

/** Returns when the next post is due, epoch ms. */
function nextDue(sql: Sql): number {
  return Number(sql.exec(`SELECT min(due_at) AS at FROM webhooks`)[0]?.at ?? 0);
}

/** Returns the next host in alphabetical order, and when its first post is due, epoch ms; null if there is none. */
function hostAfter(sql: Sql, host: string): { host: string; due_at: number } | null {
  const query = `SELECT host, due_at FROM webhooks WHERE host > ? ORDER BY host, due_at LIMIT 1`;
  const [row] = sql.exec(query, host);
  return row ? { host: String(row.host), due_at: Number(row.due_at) } : null;
}

/** Takes posts of a host that are due. They are due again at `againAt` unless their outcome is recorded before. */
function takeWebhooks(
  sql: Sql,
  column: AboutColumn,
  { host, now, againAt, limit }: { host: string; now: number; againAt: number; limit: number },
): Webhook[] {
  const taken = sql.exec(
    `UPDATE webhooks SET due_at = ? WHERE id IN (
       SELECT id FROM webhooks WHERE host = ? AND due_at <= ? ORDER BY due_at, id LIMIT ?)
     RETURNING id, ${column} AS about, host, url, tries`,
    againAt,
    host,
    now,
    limit,
  );
  return taken as unknown as Webhook[];
}

function postponeWebhook(sql: Sql, id: string, tries: number, dueAt: number): void {
  sql.exec(`UPDATE webhooks SET tries = ?, due_at = ? WHERE id = ?`, tries, dueAt, id);
}

/** Deletes a post. @returns whether it was there */
function deleteWebhook(sql: Sql, id: string): boolean {
  return sql.exec(`DELETE FROM webhooks WHERE id = ? RETURNING id`, id).length > 0;
}
