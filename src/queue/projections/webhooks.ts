import { due } from '../store/alarm.ts';
import type { StoredJob } from '../store/jobs-table.ts';
import type { Ports } from '../store/ports.ts';
import {
  countWebhooks,
  deleteWebhook,
  hostAfter,
  insertWebhook,
  postponeWebhook,
  takeWebhooks,
  type Webhook,
} from './webhooks-table.ts';

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
/** A post that nothing is heard of for this many ms was lost with its process: its own limit is much shorter. */
const AGAIN_MS = 60_000;
/** Pauses before each further try, ms; sixteen hours in all. */
const PAUSES_MS = [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800].map((seconds) => seconds * 1000);
/** The most posts kept at a time: a receiver that is gone must not fill the disk. */
const MOST_KEPT = 100_000;

type WebhookPorts = Pick<Ports, 'sql' | 'alarm' | 'now' | 'random' | 'log'>;

/**
 * Posts of settlements. The commit that settles a job writes its post, and the object around the rules sends it, again
 * and again until the receiver takes it or PAUSES_MS are over. Each host has its own share of the posts on their way,
 * so that a host that does not answer holds up no other.
 */
export class Webhooks {
  readonly #ports: WebhookPorts;
  readonly #onTheirWay = new Map<string, number>();
  /** Hosts that did not take their last post. */
  readonly #failing = new Set<string>();
  #kept: number;
  #isFull = false;
  /** The last host that was looked at; the next look goes on after it. */
  #host = '';

  constructor(ports: WebhookPorts) {
    this.#ports = ports;
    this.#kept = countWebhooks(ports.sql);
    if (this.#kept > 0) due(ports, ports.now());
  }

  /** Writes the post of a job that is settled now. @param settlement its number among the settlements of this queue */
  settled(job: StoredJob, settlement: number): void {
    const url = job.extras.webhook;
    if (url === undefined) return;
    const { sql, log, now, random } = this.#ports;
    if (this.#kept >= MOST_KEPT) {
      if (!this.#isFull) log('error', 'too many webhooks wait for their receivers; new ones are dropped');
      this.#isFull = true;
      return;
    }
    this.#kept += 1;
    // The number alone could repeat: if this queue's state is lost, the next state counts from 1 again.
    const id = `msg_${settlement}_${Math.floor(random() * 2 ** 32).toString(16)}`;
    insertWebhook(sql, { id, job_id: job.id, host: new URL(url).host, url }, now());
    due(this.#ports, now() + GATHER_MS);
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
        due(this.#ports, next.due_at);
        continue;
      }
      const posts = takeWebhooks(sql, { host: next.host, now, againAt: now + AGAIN_MS, limit: free });
      this.#onTheirWay.set(next.host, (this.#onTheirWay.get(next.host) ?? 0) + posts.length);
      taken.push(...posts);
      due(this.#ports, now + AGAIN_MS);
    }
    // More hosts are left to look at.
    due(this.#ports, now + GATHER_MS);
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
    const { sql, log, now, random } = this.#ports;
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
    due(this.#ports, dueAt);
  }

  #arrived(host: string): void {
    const left = (this.#onTheirWay.get(host) ?? 1) - 1;
    if (left === 0) this.#onTheirWay.delete(host);
    else this.#onTheirWay.set(host, left);
    // Another post may have waited for the place that is free now.
    due(this.#ports, this.#ports.now() + GATHER_MS);
  }

  #forget(id: string): void {
    if (deleteWebhook(this.#ports.sql, id)) this.#kept -= 1;
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
