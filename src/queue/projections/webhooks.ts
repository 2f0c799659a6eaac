import { WebhookOutbox } from '../../webhooks/outbox.ts';
import type { JobEvent } from '../events/event.ts';
import type { Projection } from '../events/projection.ts';
import type { Core } from '../state/state.ts';

/** Posts of settlements: the commit that settles a job writes its post. */
export class Webhooks implements Projection {
  readonly #core: Core;
  readonly outbox: WebhookOutbox;

  constructor(core: Core) {
    this.#core = core;
    this.outbox = new WebhookOutbox(core, 'job_id');
  }

  /** Writes the post of a job that is settled now. */
  after({ job, ending }: JobEvent): void {
    const url = ending === undefined || job.mode === 'waiting' ? undefined : job.extras.webhook;
    if (url === undefined) return;
    const { random, stored } = this.#core;
    // The number alone could repeat: if this queue's state is lost, the next state counts from 1 again.
    const id = `msg_${stored.latestSettlement}_${Math.floor(random() * 2 ** 32).toString(16)}`;
    this.outbox.add({ id, about: job.id, url });
  }
}
