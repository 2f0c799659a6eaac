import { deliver, isTaken } from '../../durable/deliver.ts';
import type { QueueSettingBindings } from '../../settings/queue-settings.ts';
import { webhookKey, webhookProblem, webhookReach } from '../../settings/webhooks.ts';
import type { Queue } from '../queue.ts';
import type { Ports } from '../store/ports.ts';
import type { Webhook } from '../store/webhooks-table.ts';

/** The receiver wants no more posts: https://www.standardwebhooks.com. */
const GONE = 410;

interface WebhookEnv extends Pick<QueueSettingBindings, 'WEBHOOK_HOSTS' | 'WEBHOOK_SECRET'> {
  /** Reaches any address; absent where the runtime has no such network. */
  PRIVATE_NETWORK?: { fetch: typeof fetch };
}

interface WebhookSenderPorts {
  queue: Queue;
  /** Runs what writes and commits it. */
  commit<T>(work: () => T): Promise<T>;
  log: Ports['log'];
}

/** Posts settlements to their receivers, signed as Standard Webhooks says. Never throws. */
export class WebhookSender {
  readonly #env: WebhookEnv;
  readonly #ports: WebhookSenderPorts;

  constructor(env: WebhookEnv, ports: WebhookSenderPorts) {
    this.#env = env;
    this.#ports = ports;
  }

  async send(webhooks: readonly Webhook[]): Promise<void> {
    await Promise.all(webhooks.map((webhook) => this.#sendOne(webhook)));
  }

  async #sendOne(webhook: Webhook): Promise<void> {
    const { queue, commit, log } = this.#ports;
    try {
      const body = queue.read('webhookBody', webhook.job_id);
      if (body === null) {
        const { job_id, host } = webhook;
        log('warn', 'webhook dropped: its job is forgotten, or is tried again', { job_id, host });
        return await commit(() => queue.webhooks.done(webhook));
      }
      const problem = await this.#post(webhook, body);
      await commit(() =>
        problem === null ? queue.webhooks.done(webhook) : queue.webhooks.failed(webhook, problem),
      );
    } catch (error) {
      // The object restarts, and posts it once more.
      log('warn', 'a webhook could not be noted as sent', { job_id: webhook.job_id, error: String(error) });
    }
  }

  /** @returns why the receiver did not take it; null: it did, or wants no more of it */
  async #post({ id, url }: Webhook, body: string): Promise<string | null> {
    const { WEBHOOK_HOSTS: hosts = '', WEBHOOK_SECRET: secret = '', PRIVATE_NETWORK } = this.#env;
    const key = webhookKey(secret);
    // The settings may have changed since the submission.
    const notAllowed = key === null ? 'QUEUE_WEBHOOK_SECRET is not set' : webhookProblem(url, hosts);
    if (key === null || notAllowed !== null) return notAllowed;
    const isPrivate = webhookReach(new URL(url), hosts) === 'private' && PRIVATE_NETWORK !== undefined;
    const send: typeof fetch = (...asked) => (isPrivate ? PRIVATE_NETWORK.fetch(...asked) : fetch(...asked));
    const timestamp = String(Math.floor(Date.now() / 1000));
    const answer = await deliver(send, url, body, {
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${await hmac(key, `${id}.${timestamp}.${body}`)}`,
    });
    if ('problem' in answer) return answer.problem;
    const { status } = answer;
    return isTaken(status) || status === GONE ? null : `the receiver answered ${status}`;
  }
}

/** HMAC-SHA256 in base64. */
async function hmac(key: Uint8Array<ArrayBuffer>, text: string): Promise<string> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const imported = await crypto.subtle.importKey('raw', key, algorithm, false, ['sign']);
  const mac = await crypto.subtle.sign('HMAC', imported, new TextEncoder().encode(text));
  return btoa(String.fromCharCode(...new Uint8Array(mac)));
}
