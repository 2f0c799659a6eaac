import { type JobRef, PROTOCOL, type QueueFrame } from '../../src/protocol/index.ts';
import type { Planned, Timeline } from '../simulation/timeline.ts';
import type { Peer, QueueConnection, QueueHost } from './queue-host.ts';

const RENEW_EVERY_MS = 20_000;

interface Attempt {
  fence_token: number;
  end: Planned;
  /** Its result waits to be acknowledged. */
  isDone: boolean;
}

export interface WorkerWorld {
  timeline: Timeline;
  queue: QueueHost;
  /** How long a job runs, ms. */
  lengthOf(jobId: string): number;
}

/** As much of a worker as the queue sees: it runs what it is given, lists it when it dials again, renews and settles. */
export class PlayedWorker implements Peer {
  readonly name: string;
  readonly #world: WorkerWorld;
  readonly #configId: string;
  /** Names its process. */
  readonly #bootId: string;
  readonly #held = new Map<string, Attempt>();
  #connection: QueueConnection | null = null;
  #slots = 0;
  #renewal: Planned | null = null;
  #isPreempted = false;
  #settled = 0;
  /** Whether every other job fails at its engine. */
  fails = false;

  constructor(world: WorkerWorld, name: string, configId: string, bootId: string) {
    this.#world = world;
    this.name = name;
    this.#configId = configId;
    this.#bootId = bootId;
  }

  get isConnected(): boolean {
    return this.#connection !== null;
  }

  /** Jobs that it has begun and that nobody has heard the result of. */
  get holds(): number {
    return this.#held.size;
  }

  /** Dials, or offers other slots on the connection that it has. */
  offer(capacity: number): void {
    const slots = this.#isPreempted ? 0 : capacity;
    if (this.#connection && slots === this.#slots) return;
    this.#connection ??= this.#world.queue.accept(this);
    if (!this.#connection) return;
    this.#slots = slots;
    this.#say({
      type: 'register',
      worker_id: this.name,
      config_id: this.#configId,
      capacity: slots,
      protocol: PROTOCOL,
      instance: { id: this.name, models: ['model'], boot_id: this.#bootId },
      jobs: this.#refs(),
    });
    this.#renewal ??= this.#renewLater();
    if (this.#isPreempted) this.#drain();
  }

  /** Its machine is about to be taken away: it gives back what it runs. */
  notice(): void {
    this.#isPreempted = true;
    if (this.#connection) this.#drain();
  }

  #drain(): void {
    this.#say({ type: 'drain', reason: 'preempted' });
    for (const { job_id, fence_token } of this.#refs()) {
      if (this.#held.get(job_id)?.isDone) continue;
      this.#say({ type: 'job_release', job_id, fence_token, reason: 'draining' });
      this.#drop(job_id);
    }
  }

  /** Its network is gone; it goes on with what it runs. */
  hangUp(): void {
    const connection = this.#connection;
    this.#connection = null;
    if (connection) this.#world.queue.hangUp(connection);
  }

  /** Its process is gone, and with it all that it ran. */
  die(): void {
    this.hangUp();
    if (this.#renewal) this.#renewal.run = null;
    for (const { end } of this.#held.values()) end.run = null;
    this.#held.clear();
  }

  onClose(): void {
    this.#connection = null;
  }

  onFrame(frame: QueueFrame): void {
    if (!this.#connection) return;
    switch (frame.type) {
      case 'job':
        return this.#begin(frame.job_id, frame.fence_token);
      case 'ack':
        return this.#end(frame);
      case 'job_revoked':
        return this.#drop(frame.job_id);
      case 'renewed':
        for (const attempt of frame.lost) this.#end(attempt);
        return;
      case 'registered':
        for (const { job_id } of frame.revoked) this.#drop(job_id);
        for (const [id, { isDone }] of this.#held) if (isDone) this.#settle(id);
    }
  }

  #begin(jobId: string, fence_token: number): void {
    this.#drop(jobId);
    const end = this.#world.timeline.after(this.#world.lengthOf(jobId), () => {
      const attempt = this.#held.get(jobId);
      if (attempt?.fence_token !== fence_token) return;
      attempt.isDone = true;
      this.#settle(jobId);
    });
    this.#held.set(jobId, { fence_token, end, isDone: false });
  }

  #settle(job_id: string): void {
    const fence_token = this.#held.get(job_id)?.fence_token;
    this.#settled += 1;
    if (this.fails && this.#settled % 2 === 0) {
      const error = { error: 'no token that means anything', code: 'engine_error', retryable: true };
      return this.#say({ type: 'job_error', job_id, fence_token, ...error, http_status: 500 });
    }
    this.#say({ type: 'job_result', job_id, fence_token, result: {} });
  }

  /** A newer attempt at the same job goes on. */
  #end({ job_id, fence_token }: JobRef): void {
    if (this.#held.get(job_id)?.fence_token === fence_token) this.#drop(job_id);
  }

  #drop(jobId: string): void {
    const attempt = this.#held.get(jobId);
    if (attempt) attempt.end.run = null;
    this.#held.delete(jobId);
  }

  #renewLater(): Planned {
    return this.#world.timeline.after(RENEW_EVERY_MS, () => {
      if (this.#held.size > 0) this.#say({ type: 'renew', jobs: this.#refs() });
      this.#renewal = this.#renewLater();
    });
  }

  #refs(): { job_id: string; fence_token: number }[] {
    return [...this.#held].map(([job_id, { fence_token }]) => ({ job_id, fence_token }));
  }

  #say(frame: object): void {
    if (this.#connection) this.#world.queue.say(this.#connection, frame);
  }
}
