import type { ObjectHost, Post } from '../durable/host.ts';
import type { TableSteps } from '../durable/ports.ts';
import { randomText } from '../protocol/random-text.ts';
import type { QueueSettingBindings } from '../settings/queue-settings.ts';
import { webhookProblem } from '../settings/webhooks.ts';
import { WebhookOutbox } from './outbox.ts';
import { WebhookSender, type WebhookSettings } from './sender.ts';

/** The table of an object whose posts are events in OpenAI's form. `event`: the JSON that is posted. */
export const EVENT_TABLES: readonly string[] = [
  `CREATE TABLE webhooks (
     id TEXT PRIMARY KEY,
     event TEXT NOT NULL,
     host TEXT NOT NULL,
     url TEXT NOT NULL,
     tries INTEGER NOT NULL DEFAULT 0,
     due_at INTEGER NOT NULL
   )`,
  `CREATE INDEX webhooks_due ON webhooks (host, due_at)`,
];

/** Adds the table to the databases of objects that are older than it. */
export const EVENT_TABLE_STEPS: TableSteps = { 29: EVENT_TABLES };

/** Where events are posted, and how. */
export interface EventReceiver {
  settings: WebhookSettings & Pick<QueueSettingBindings, 'WEBHOOK_URL'>;
  post: Post;
}

const HEX = '0123456789abcdef';
const ID_DIGITS = 32;

/**
 * Posts events in OpenAI's form to the receiver of the queue, if it has one: `response.completed`, `batch.failed` and
 * the like, with the id of what has ended and nothing of its content.
 */
export class EventWebhooks {
  readonly #host: ObjectHost;
  readonly #url: string;
  readonly #outbox: WebhookOutbox;
  readonly #sender: WebhookSender;

  constructor(host: ObjectHost, { settings, post }: EventReceiver) {
    this.#host = host;
    const log: ObjectHost['log'] = (level, message, fields) =>
      host.log(level, message, { queue_id: host.queueId, ...fields });
    const { WEBHOOK_URL: url = '', WEBHOOK_HOSTS: hosts = '' } = settings;
    const problem = url === '' ? null : webhookProblem(url, hosts);
    // The Node host has checked it. Elsewhere a wrong one must not keep anything from its end.
    if (problem !== null) log('error', `QUEUE_WEBHOOK_URL: ends are posted nowhere. ${problem}`);
    this.#url = problem === null ? url : '';
    const now = () => host.now();
    this.#outbox = new WebhookOutbox(
      { sql: host.sql, alarm: host.alarm, now, random: Math.random, log },
      'event',
    );
    this.#sender = new WebhookSender(settings, {
      outbox: this.#outbox,
      bodyOf: ({ about }) => about,
      commit: async (work) => work(),
      post,
      host: { now, log },
    });
  }

  /** Writes the event that something has ended: part of the commit that ends it. */
  add(type: string, id: string): void {
    if (this.#url === '') return;
    const event = `evt_${randomText(ID_DIGITS, HEX)}`;
    const created_at = Math.floor(this.#host.now() / 1000);
    const about = JSON.stringify({ id: event, object: 'event', type, created_at, data: { id } });
    this.#outbox.add({ id: event, about, url: this.#url });
  }

  /** Sends what is due; called when the alarm rings. */
  send(): void {
    const taken = this.#outbox.take();
    if (taken.length > 0) this.#host.background(this.#sender.send(taken));
  }

  /** Sets the alarm again, if it was set for something else while events wait. */
  arm(): void {
    this.#outbox.arm();
  }
}
