import type { AttemptLoopPorts } from '../../src/asking/attempt-loop.ts';
import type { AskedFor, RelayStub } from '../../src/asking/objects.ts';
import type { BatchQueue } from '../../src/batches/ports.ts';
import type { Env } from '../../src/gateway/env.ts';
import { batchQueue } from '../../src/gateway/objects/batches.ts';
import { elsewhere, stayed } from '../../src/moving/mover.ts';
import { relayName } from '../../src/relay/calls.ts';
import { playedObjects } from '../support/objects.ts';
import { Random } from '../support/random.ts';
import { BatchesHost } from './batches-host.ts';
import { FleetHost } from './fleet-host.ts';
import type { Link } from './network.ts';
import { ProcessTimeline } from './process-timeline.ts';
import { QueueHost } from './queue-host.ts';
import type { QueueHostPorts } from './queue-host-ports.ts';
import { type CallerBody, RelayHost, readable } from './relay-host.ts';
import type { Timeline } from './timeline.ts';

/** One life of the server's process; callers in it end with it. */
export class Life {
  isAlive = true;
  readonly #onEnd = new Set<() => void>();

  whenOver(run: () => void): () => void {
    this.#onEnd.add(run);
    return () => this.#onEnd.delete(run);
  }

  end(): void {
    this.isAlive = false;
    for (const run of [...this.#onEnd]) run();
  }
}

type ServerPorts = Omit<QueueHostPorts, 'breakStream' | 'fleet' | 'timeline'> & {
  timeline: Timeline;
  /** Faults have not stopped yet. */
  isTroubled(): boolean;
};

/** A queue without events notices late that its clock was set back; until then, it stands still. */
const UNNOTICED_MS = 30_000;

/** Gateway, queue and relays in one process. */
export class Server {
  readonly queue: QueueHost;
  readonly batches: BatchesHost;
  readonly #ports: ServerPorts;
  readonly #random: Random;
  readonly #fleet: FleetHost;
  readonly #process: ProcessTimeline;
  readonly #relays = new Map<string, RelayHost>();
  /** How much later the queue's deadlines may be than those its workers count by themselves. */
  #setBackMs = 0;
  #frozenMs = 0;
  #life: Life | null = null;

  constructor(ports: ServerPorts) {
    this.#ports = ports;
    this.#process = new ProcessTimeline(ports.timeline);
    ports.oracle.queueNow = () => this.queue.now + this.#setBackMs;
    this.#random = new Random(ports.plan.seed, 'server');
    this.queue = new QueueHost({
      ...ports,
      timeline: this.#process,
      breakStream: (worker, stream, reason) =>
        this.#relay(relayName('q', worker)).breakStream(stream, reason),
      fleet: () => {
        const life = this.#life;
        return this.#fleet.calls(() => life?.isAlive === true);
      },
    });
    this.batches = new BatchesHost({
      ...ports,
      timeline: this.#process,
      queue: (isAlive) => this.#queueOfLines(isAlive),
    });
    const { seed } = ports.plan;
    const startsWorkers = new Random(seed, 'starts').chance(0.3);
    this.#fleet = new FleetHost(ports.timeline, new Random(seed, 'fleet'), startsWorkers);
  }

  /** Null while the process is down. */
  get life(): Life | null {
    return this.#life;
  }

  /** Epoch ms until which its process stands still. */
  get frozenUntil(): number {
    return this.#process.frozenUntil;
  }

  /** Epoch ms by its own wall clock. */
  get now(): number {
    return this.#process.now;
  }

  get #isFrozen(): boolean {
    return this.#process.frozenUntil > this.#ports.timeline.now;
  }

  freeze(ms: number): void {
    if (!this.#life || this.#isFrozen) return;
    this.#process.freeze(ms);
    this.#frozenMs += ms;
  }

  setClock(byMs: number): void {
    this.#process.setClock(byMs);
    if (byMs < 0) this.#setBackMs += UNNOTICED_MS;
  }

  /** How long it has stood still until now, by its clock that was set back or as a process, ms. */
  get stoodStillMs(): number {
    return this.#setBackMs + this.#frozenMs - Math.max(0, this.frozenUntil - this.#ports.timeline.now);
  }

  get isBusy(): boolean {
    return [...this.#relays.values()].some((relay) => relay.isBusy);
  }

  start(): void {
    this.#ports.trace.say('server starts');
    this.#life = new Life();
    this.#fleet.restart();
    this.queue.start();
    this.batches.start();
  }

  crash(downMs: number, isPowerLoss: boolean): void {
    if (!this.#life) return;
    const life = this.#life;
    this.#life = null;
    this.#process.frozenUntil = 0;
    this.queue.stop(isPowerLoss);
    this.batches.stop();
    this.#endRelays(isPowerLoss);
    life.end();
    this.#ports.timeline.after(downMs, () => this.start());
  }

  /** Between the next thing that is done and its commit. */
  crashInCommit(downMs: number, isPowerLoss: boolean): void {
    if (this.#life && !this.#isFrozen) this.queue.beforeNextCommit(() => this.crash(downMs, isPowerLoss));
  }

  /** Tells every worker first, as the launcher does. */
  restart(downMs: number): void {
    if (!this.#life || this.#isFrozen) return;
    const life = this.#life;
    this.queue.leave();
    for (const relay of this.#relays.values()) relay.closeSockets();
    this.#ports.timeline.after(50, () => {
      if (this.#life === life) this.crash(downMs, false);
    });
  }

  /** The object is thrown out of its process. */
  resetQueue(): void {
    if (this.#life && !this.#isFrozen) this.queue.reset();
  }

  hibernateQueue(): boolean {
    if (this.#life === null || this.#isFrozen) return true;
    return this.queue.hibernate();
  }

  resetRelay(worker: string): void {
    const name = relayName('q', worker);
    this.#relays.get(name)?.end(false);
    this.#relays.delete(name);
  }

  accept(link: Link): void {
    if (!link.isDialling) return;
    if (this.#isFrozen) {
      this.#ports.timeline.at(this.frozenUntil + 1, () => this.accept(link));
      return;
    }
    if (!this.#life) link.refused();
    else if (link.channel === 'control') this.queue.accept(link);
    else this.#relay(relayName('q', link.process.name)).accept(link);
  }

  /** What the gateway is given, for as long as this life of the process lasts. */
  env(life: { readonly isAlive: boolean }): Env {
    const objects = playedObjects({
      queue: () => this.queue.questions.calls(() => life.isAlive),
      relay: (_queueId, workerId) => this.#relayFor(life, workerId!),
      fleet: () => this.#fleet.calls(() => life.isAlive),
    });
    return { objects };
  }

  /** The queue as the object of batches asks it. Every job has a tenant of its own, so that usage can be told apart. */
  #queueOfLines(isAlive: () => boolean): BatchQueue {
    const env = this.env({
      get isAlive() {
        return isAlive();
      },
    });
    const queue = batchQueue(env, 'q');
    return {
      ...queue,
      submit: (jobs) => queue.submit(jobs.map((job) => ({ ...job, tenant: job.id }))),
      cancel: (id) => {
        this.#ports.oracle.cancelAsked(id);
        return queue.cancel(id);
      },
    };
  }

  /** The gateway opens a stream at the relay of a worker. */
  openStream(
    life: { readonly isAlive: boolean },
    worker: string,
    stream: number,
    asked: AskedFor,
  ): Promise<Response> {
    return this.#fetch(life, () => this.#relay(relayName('q', worker)).open(stream, asked));
  }

  /** Whoever asked for it is gone. */
  dropStream(life: Life, worker: string, stream: number): void {
    this.#process.after(1, () => {
      if (life.isAlive) this.#relay(relayName('q', worker)).drop(stream);
    });
  }

  /** A relay as another one asks it for the rest of an answer. */
  #relayFor(life: { readonly isAlive: boolean }, worker: string): Pick<RelayStub, 'open'> {
    return {
      open: async (stream, _more, asked) => readable(await this.openStream(life, worker, stream, asked!)),
    };
  }

  /** How a relay asks for the rest of an answer, by the clock of this process. */
  #elsewhere(life: { readonly isAlive: boolean }, asked: AskedFor): AttemptLoopPorts<Response> {
    const { job_id, moved } = asked.call;
    this.#ports.trace.say(
      `${job_id} moves from ${moved?.worker_id} at token ${moved?.tokens}: ${moved?.why}`,
    );
    return elsewhere(this.env(life).objects, asked, {
      now: () => this.#process.now,
      sleep: (ms) => new Promise((resolve) => this.#process.after(ms, () => life.isAlive && resolve())),
    });
  }

  openReplay(
    life: Life,
    worker: string,
    stream: number,
    signal: AbortSignal,
    opened: (body: CallerBody) => string,
  ): Promise<Response> {
    return this.#fetch(life, () => this.#relay(relayName('q', worker)).openReplay(stream, signal, opened));
  }

  /** Question and answer with a delay each. */
  #fetch(life: { readonly isAlive: boolean }, ask: () => Promise<Response>): Promise<Response> {
    const timeline = this.#process;
    return new Promise((resolve, reject) => {
      timeline.after(this.#random.int(0, 3), () => {
        if (!life.isAlive) return;
        ask().then(
          (response) => timeline.after(this.#random.int(0, 3), () => life.isAlive && resolve(response)),
          (error) => life.isAlive && reject(error),
        );
      });
    });
  }

  #endRelays(isPowerLoss: boolean): void {
    for (const relay of this.#relays.values()) relay.end(isPowerLoss);
    this.#relays.clear();
  }

  #relay(name: string): RelayHost {
    const known = this.#relays.get(name);
    if (known) return known;
    const life = this.#life ?? { isAlive: false };
    const relay = new RelayHost(this.#process, this.#ports.plan.graceSeconds, {
      elsewhere: (asked) => this.#elsewhere(life, asked),
      stayed: (asked, why) => {
        this.#ports.trace.say(`${asked.call.job_id} stays: ${why}`);
        stayed(this.env(life).objects, asked, why);
      },
    });
    this.#relays.set(name, relay);
    return relay;
  }
}
