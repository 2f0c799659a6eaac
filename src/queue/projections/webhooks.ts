import type { JobEvent } from '../events/event.ts';
import type { Projection } from '../events/projection.ts';
import type { Core } from '../state/state.ts';
import type { Sql } from '../store/ports.ts';
import { due, row, rows } from '../store/ports.ts';

/** Settlements of this many ms are posted together. */
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

/** A post of a settlement; its id is the same however often it is tried. */
export interface Webhook {
  id: string;
  job_id: string;
  /** The host of the post's address, port included. */
  host: string;
  url: string;
  /** The number of tries that failed. */
  tries: number;
}

/**
 * Posts of settlements. The commit that settles a job writes its post, and the object around the rules sends it, again
 * and again until the receiver takes it or PAUSES_MS are over. Each host has its own share of the posts on their way,
 * so that a host that does not answer holds up no other.
 */
export class Webhooks implements Projection {
  readonly #core: Core;
  readonly #onTheirWay = new Map<string, number>();
  /** Hosts that did not take their last post. */
  readonly #failing = new Set<string>();
  #kept: number;
  #isFull = false;
  /** The last host that was looked at; the next look goes on after it. */
  #host = '';

  constructor(core: Core) {
    this.#core = core;
    this.#kept = countWebhooks(core.sql);
    if (this.#kept > 0) due(core, core.now());
  }

  /** Writes the post of a job that is settled now. */
  after({ job, ending }: JobEvent): void {
    const url = ending === undefined || job.mode === 'waiting' ? undefined : job.extras.webhook;
    if (url === undefined) return;
    const { sql, log, now, random, stored } = this.#core;
    if (this.#kept >= MOST_KEPT) {
      if (!this.#isFull) log('error', 'too many webhooks wait for their receivers; new ones are dropped');
      this.#isFull = true;
      return;
    }
    this.#kept += 1;
    // The number alone could repeat: if this queue's state is lost, the next state counts from 1 again.
    const id = `msg_${stored.latestSettlement}_${Math.floor(random() * 2 ** 32).toString(16)}`;
    insertWebhook(sql, { id, job_id: job.id, host: new URL(url).host, url }, now());
    due(this.#core, now() + GATHER_MS);
  }

  /** Takes the posts that are due now. The caller sends them after the commit. */
  take(): Webhook[] {
    if (this.#kept === 0) return [];
    const { sql } = this.#core;
    const now = this.#core.now();
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
        due(this.#core, next.due_at);
        continue;
      }
      const posts = takeWebhooks(sql, { host: next.host, now, againAt: now + AGAIN_MS, limit: free });
      this.#onTheirWay.set(next.host, (this.#onTheirWay.get(next.host) ?? 0) + posts.length);
      taken.push(...posts);
      due(this.#core, now + AGAIN_MS);
    }
    // More hosts are left to look at.
    due(this.#core, now + GATHER_MS);
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
    const { id, job_id, host } = webhook;
    const { sql, log, now, random } = this.#core;
    this.#arrived(host);
    this.#failing.add(host);
    const tries = webhook.tries + 1;
    const pauseMs = PAUSES_MS[webhook.tries];
    if (pauseMs === undefined) {
      log('warn', 'webhook given up', { job_id, host, tries, reason });
      this.#forget(id);
      return;
    }
    log('info', 'webhook not delivered; trying again', {
      job_id,
      host,
      tries,
      reason,
      seconds: pauseMs / 1000,
    });
    const dueAt = now() + Math.round(pauseMs * (1 + random() / 10));
    postponeWebhook(sql, id, tries, dueAt);
    due(this.#core, dueAt);
  }

  #arrived(host: string): void {
    const left = (this.#onTheirWay.get(host) ?? 1) - 1;
    if (left === 0) this.#onTheirWay.delete(host);
    else this.#onTheirWay.set(host, left);
    // Another post may have waited for the place that is free now.
    due(this.#core, this.#core.now() + GATHER_MS);
  }

  #forget(id: string): void {
    if (deleteWebhook(this.#core.sql, id)) this.#kept -= 1;
    this.#isFull = false;
    if (this.#kept === 0) this.#failing.clear();
  }

  #freeFor(host: string): number {
    let all = 0;
    for (const count of this.#onTheirWay.values()) all += count;
    const most = this.#failing.has(host) ? MOST_TO_FAILING : MOST_TO_HOST;
    return Math.min(most - (this.#onTheirWay.get(host) ?? 0), MOST_AT_ONCE - all);
  }
}

function insertWebhook(sql: Sql, webhook: Omit<Webhook, 'tries'>, dueAt: number): void {
  sql.exec(
    `INSERT INTO webhooks (id, job_id, host, url, due_at) VALUES (?, ?, ?, ?, ?)`,
    webhook.id,
    webhook.job_id,
    webhook.host,
    webhook.url,
    dueAt,
  );
}

function countWebhooks(sql: Sql): number {
  return row<{ n: number }>(sql, `SELECT count(*) AS n FROM webhooks`)!.n;
}

/** Returns the next host in alphabetical order, and when its first post is due, epoch ms; null if there is none. */
function hostAfter(sql: Sql, host: string): { host: string; due_at: number } | null {
  return row(sql, `SELECT host, due_at FROM webhooks WHERE host > ? ORDER BY host, due_at LIMIT 1`, host);
}

/** Takes posts of a host that are due. They are due again at `againAt` unless their outcome is recorded before. */
function takeWebhooks(
  sql: Sql,
  { host, now, againAt, limit }: { host: string; now: number; againAt: number; limit: number },
): Webhook[] {
  return rows<Webhook>(
    sql,
    `UPDATE webhooks SET due_at = ? WHERE id IN (
       SELECT id FROM webhooks WHERE host = ? AND due_at <= ? ORDER BY due_at LIMIT ?)
     RETURNING id, job_id, host, url, tries`,
    againAt,
    host,
    now,
    limit,
  );
}

function postponeWebhook(sql: Sql, id: string, tries: number, dueAt: number): void {
  sql.exec(`UPDATE webhooks SET tries = ?, due_at = ? WHERE id = ?`, tries, dueAt, id);
}

/** Deletes a post. @returns whether it was there */
function deleteWebhook(sql: Sql, id: string): boolean {
  return rows(sql, `DELETE FROM webhooks WHERE id = ? RETURNING id`, id).length > 0;
}
