import type { LaunchRecord } from '../../src/scheduler/launch.ts';
import type { FleetHost } from './fleet-host.ts';
import type { Machines } from './machines.ts';
import type { ObjectLink } from './object-link.ts';
import type { QueueHost } from './queue-host.ts';

/** Numbers that have not changed for so long are the same at queue and scheduler, ms: a report a second, some lost. */
const QUIET_MS = 10_000;
/** After a time without answers, or with late ones, both know again how things are, ms. */
const WELL_AFTER_MS = 80_000;
/** What the scheduler has written is obeyed within so long, ms: a reconciliation, and its call. */
const OBEYED_WITHIN_MS = 15_000;
/** A job that waits has any free slot within so long, ms. */
const TAKEN_WITHIN_MS = 30_000;
/** Of a caller, by default of the spec. */
const START_WAIT_MS = 600_000;

interface Seam {
  queue: QueueHost;
  host: FleetHost;
  link: ObjectLink;
  machines: Machines;
  pools: readonly string[];
  /** Those whose workers come up and serve. */
  isSound(configId: string): boolean;
  /** Every launch that was written. */
  rows: ReadonlyMap<string, LaunchRecord>;
  /** Epoch ms, the true one. */
  now(): number;
  /** Whether something has gone wrong lately. */
  isCalm(): boolean;
  violated(promise: string, message: string): void;
}

/** What holds between the scheduler and the queue: who gets jobs, who waits, and that both know the same. */
export class SeamPromises {
  readonly #seam: Seam;
  #unwellAt: number;
  /** Of both objects. */
  #lives = '';
  /** The queue's numbers, and since when they are as they are. */
  #numbers = { text: '', known: '', since: 0 };
  /** Since when something holds that must not hold for long, epoch ms. */
  readonly #since = new Map<string, number>();
  /** When a state was last seen of a launch, and since when without another. */
  readonly #states = new Map<string, { state: string; since: number }>();

  constructor(seam: Seam) {
    this.#seam = seam;
    this.#unwellAt = seam.now();
  }

  /** Every second. */
  check(): void {
    const { queue, host, link, now, rows } = this.#seam;
    const lives = `${queue.life} ${host.restarts}`;
    const isOff = !queue.isUp || !host.isUp || link.isDown || link.slowMs > 0;
    if (isOff || lives !== this.#lives) this.#unwellAt = now();
    this.#lives = lives;
    for (const { name, state } of rows.values()) {
      if (this.#states.get(name)?.state !== state) this.#states.set(name, { state, since: now() });
    }
    this.#checkNumbers();
    this.#checkCordon();
    this.#checkSlots();
    this.#checkWaiting();
  }

  /** The queue gives a worker a job. */
  jobSent(workerId: string): void {
    const { queue, now, violated } = this.#seam;
    if (queue.cordoned.has(workerId)) violated('a cordoned worker gets no job', workerId);
    const known = this.#states.get(workerId);
    const isLeaving = known?.state === 'draining' || known?.state === 'terminating';
    if (known && isLeaving && this.#isWell && now() - known.since > OBEYED_WITHIN_MS) {
      violated('a worker that is to end gets no job', `${workerId} is ${known.state}`);
    }
  }

  /** A caller is turned away for want of a worker. */
  turnedAway(configId: string, waitedMs: number, message: string): void {
    const { host, isSound, isCalm, violated } = this.#seam;
    const start = host.starts().find(({ config_id }) => config_id === configId);
    const isMeant = start?.state === 'stopped' || waitedMs >= START_WAIT_MS || !isSound(configId);
    if (isMeant || !this.#isWell || !isCalm()) return;
    violated('a caller waits for a worker that starts', `${configId} after ${waitedMs / 1000} s: ${message}`);
  }

  /** Both objects are there, and hear of each other at once. */
  get #isWell(): boolean {
    return this.#seam.now() - this.#unwellAt > WELL_AFTER_MS;
  }

  #checkNumbers(): void {
    const { queue, host, now, violated } = this.#seam;
    const share = queue.share();
    const { rules } = host;
    if (!share || !rules) return;
    const pools = share.pools.map(({ config_id, pending, running, totals }) => {
      const ended = totals.succeeded + totals.failed;
      return [config_id, pending.waiting + pending.stored, running, totals.submitted, ended];
    });
    const text = inWords(share.sessions, pools);
    const told = [...rules.facts().pools].map(([id, { waiting, running, submitted, ended }]) => {
      return [id, waiting, running, submitted, ended];
    });
    const known = inWords(rules.machines.sessions(), told);
    // Numbers that change and change back between two looks are reported in between: what was known counts too.
    if (text !== this.#numbers.text || known !== this.#numbers.known)
      this.#numbers = { text, known, since: now() };
    if (known === text || !this.#isWell || now() - this.#numbers.since < QUIET_MS) return;
    violated('queue and scheduler know the same', `${text}, and not ${known}`);
  }

  /** A worker that the scheduler wants, or wants again, gets jobs; none of them stops taking any by itself. */
  #checkCordon(): void {
    const { queue, machines, now, violated } = this.#seam;
    for (const { worker_id, state } of queue.share()?.sessions ?? []) {
      if (state !== 'ready' && !queue.cordoned.has(worker_id) && !machines.wasNoticed(worker_id)) {
        violated('a worker outside the cordon gets jobs', `${worker_id} is ${state}`);
      }
    }
    for (const name of queue.cordoned) {
      const known = this.#states.get(name);
      if (known?.state !== 'ready' || !this.#isWell || now() - known.since <= OBEYED_WITHIN_MS) continue;
      violated('a worker that is wanted is not cordoned', name);
    }
  }

  #checkSlots(): void {
    const { queue, pools } = this.#seam;
    const share = queue.share();
    for (const id of pools) {
      const free = share?.sessions.find(
        ({ config_id, state, capacity, running }) =>
          config_id === id && state === 'ready' && capacity > running,
      );
      const isUnused = free !== undefined && queue.jobsOf(id).waiting > 0;
      const message = `${id}: ${free?.worker_id} has a free slot`;
      this.#mayLast(isUnused, TAKEN_WITHIN_MS, 'no slot stays unused while something waits', message);
    }
  }

  /** Callers hear at once that no worker is started for them. */
  #checkWaiting(): void {
    const { queue, host, pools } = this.#seam;
    const share = queue.share();
    for (const id of pools) {
      const callers = share?.pools.find(({ config_id }) => config_id === id)?.pending.waiting ?? 0;
      const isServed = share?.sessions.some(({ config_id }) => config_id === id) ?? false;
      const start = callers > 0 && !isServed ? host.starts().find(({ config_id }) => config_id === id) : null;
      const isVain = start?.state === 'stopped' && this.#isWell;
      const message = `${id}: ${callers} wait, and ${start?.text}`;
      this.#mayLast(isVain, OBEYED_WITHIN_MS, 'nobody waits for a worker that is not started', message);
    }
  }

  #mayLast(holds: boolean, ms: number, promise: string, message: string): void {
    const { now, violated } = this.#seam;
    const key = `${promise} ${message.slice(0, message.indexOf(':'))}`;
    if (!holds) this.#since.delete(key);
    else this.#since.set(key, this.#since.get(key) ?? now());
    if (now() - (this.#since.get(key) ?? now()) > ms) violated(promise, message);
  }
}

interface Session {
  worker_id: string;
  state: string;
  capacity: number;
  running: number;
}

function inWords(sessions: readonly Session[], pools: readonly unknown[][]): string {
  const workers = sessions.map(({ worker_id, state, capacity, running }) =>
    [worker_id, state, capacity, running].join(' '),
  );
  return [...workers.sort(), ...pools.map((pool) => pool.join(' ')).sort()].join('; ');
}
