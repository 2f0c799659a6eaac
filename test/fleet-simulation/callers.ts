import type { PoolChoice } from '../../src/fleet/rpc.ts';
import { isUnserved, type RequestAnswer, type WaitingRequest } from '../../src/queue/rpc.ts';
import type { ObjectLink } from './object-link.ts';
import type { PlannedJob } from './plan.ts';
import type { QueueHost } from './queue-host.ts';

/** How long a request waits for a slot, ms. */
const WAIT_FOR_SLOT_MS = 60_000;
const BODY = '{"messages":[]}';

interface CallerWorld {
  queue: QueueHost;
  link: ObjectLink;
  choose(model: string): PoolChoice;
  /** A caller is turned away for want of a worker. */
  turnedAway(configId: string, waitedMs: number, message: string): void;
  now(): number;
}

/** Who brings work: programs that store jobs, and callers that wait, as the gateway asks for them. */
export class Callers {
  readonly #world: CallerWorld;
  readonly #lengths = new Map<string, number>();
  /** What the queue has not taken, or not answered: asked again when it is back. */
  readonly #open = new Map<string, () => void>();

  constructor(world: CallerWorld) {
    this.#world = world;
  }

  /** ms */
  lengthOf(jobId: string): number {
    return this.#lengths.get(jobId) ?? 0;
  }

  bring(configId: string, { takes, waits }: PlannedJob): void {
    const id = `job-${this.#lengths.size}`;
    this.#lengths.set(id, Math.max(1, Math.round(takes * 1000)));
    const ask = waits
      ? () => this.#request(id, configId, this.#world.now())
      : () => this.#store(id, configId);
    this.#open.set(id, ask);
    ask();
  }

  queueIsUpAgain(): void {
    for (const ask of [...this.#open.values()]) ask();
  }

  #store(id: string, config_id: string): void {
    const job = { job_type: 'chat_completion', payload: BODY, config_id, priority: 0, max_attempts: 3 };
    if (this.#world.queue.do((queue) => queue.submit([job], [id]))) this.#open.delete(id);
  }

  #request(job_id: string, configId: string, since: number, known?: PoolChoice): void {
    const asked: WaitingRequest = {
      job_id,
      job_type: 'engine_request',
      payload: JSON.stringify({ method: 'POST', path: '/v1/chat/completions', body: BODY }),
      model: configId,
      priority: 0,
      wait_for_worker_ms: 0,
      wait_for_slot_ms: WAIT_FOR_SLOT_MS,
      waits_for_start: true,
      ...(known && { known: [[configId, known]] }),
    };
    this.#world.queue.do((queue) =>
      queue.do('request', asked, (answer) => {
        if (isUnserved(answer)) void this.#askFleet(job_id, configId, since);
        else this.#answered(job_id, configId, since, answer);
      }),
    );
  }

  async #askFleet(id: string, configId: string, since: number): Promise<void> {
    const { link, choose } = this.#world;
    // It told what it knows before it answered.
    await this.#world.queue.tellFleet().catch(() => {});
    const known = await link.call(() => choose(configId)).catch(() => null);
    if (known) this.#request(id, configId, since, known);
    else this.#open.delete(id);
  }

  #answered(id: string, configId: string, since: number, answer: RequestAnswer): void {
    this.#open.delete(id);
    if (answer.kind !== 'refused' || answer.reason === 'no_slot') return;
    this.#world.turnedAway(configId, this.#world.now() - since, answer.message);
  }
}
