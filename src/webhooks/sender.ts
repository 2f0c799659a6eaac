import { deliver, isTaken } from '../durable/deliver.ts';
import type { ObjectHost, Post } from '../durable/host.ts';
import type { QueueSettingBindings } from '../settings/queue-settings.ts';
import { webhookKey, webhookProblem, webhookReach } from '../settings/webhooks.ts';
import type { Webhook, WebhookOutbox } from './outbox.ts';
import { signedHeaders } from './signature.ts';

/** The status by which a receiver wants no more posts: https://www.standardwebhooks.com. */
const GONE = 410;

/** The settings by which webhooks are posted. */
export type WebhookSettings = Pick<QueueSettingBindings, 'WEBHOOK_HOSTS' | 'WEBHOOK_SECRET'>;

interface WebhookSenderPorts {
  outbox: Pick<WebhookOutbox, 'done' | 'failed'>;
  /** Returns the JSON of a post; null: it is not to be sent any more. */
  bodyOf(webhook: Webhook): string | null;
  /** Runs work that writes, and commits it. */
  commit<T>(work: () => T): Promise<T>;
  post: Post;
  host: Pick<ObjectHost, 'now' | 'log'>;
}

/** Sends the posts of an outbox to their receivers, signed as Standard Webhooks says. Never throws. */
export class WebhookSender {
  readonly #settings: WebhookSettings;
  readonly #ports: WebhookSenderPorts;

  constructor(settings: WebhookSettings, ports: WebhookSenderPorts) {
    this.#settings = settings;
    this.#ports = ports;
  }

  async send(webhooks: readonly Webhook[]): Promise<void> {
    await Promise.all(webhooks.map((webhook) => this.#sendOne(webhook)));
  }

  async #sendOne(webhook: Webhook): Promise<void> {
    const { outbox, bodyOf, commit, host } = this.#ports;
    try {
      const body = bodyOf(webhook);
      if (body === null) {
        const { about: job_id, host: receiver } = webhook;
        const dropped = 'webhook dropped: its job is forgotten, or is tried again';
        host.log('warn', dropped, { job_id, host: receiver });
        return await commit(() => outbox.done(webhook));
      }
      const problem = await this.#post(webhook, body);
      await commit(() => (problem === null ? outbox.done(webhook) : outbox.failed(webhook, problem)));
    } catch (error) {
      // The object restarts, and posts the webhook once more.
      host.log('warn', 'a webhook could not be noted as sent', {
        id: webhook.id,
        error: String(error),
      });
    }
  }

  /** Posts once. @returns why the receiver did not take it; null if it did, or wants no more posts */
  async #post({ id, url }: Webhook, body: string): Promise<string | null> {
    const { WEBHOOK_HOSTS: hosts = '', WEBHOOK_SECRET: secret = '' } = this.#settings;
    const { post, host } = this.#ports;
    const key = webhookKey(secret);
    // The settings may have changed since the submission.
    const notAllowed = key === null ? 'QUEUE_WEBHOOK_SECRET is not set' : webhookProblem(url, hosts);
    if (key === null || notAllowed !== null) return notAllowed;
    const headers = await signedHeaders(key, id, host.now(), body);
    const answer = await deliver(post(webhookReach(new URL(url), hosts) ?? 'public'), url, body, headers);
    if ('problem' in answer) return answer.problem;
    const { status } = answer;
    return isTaken(status) || status === GONE ? null : `the receiver answered ${status}`;
  }
}
