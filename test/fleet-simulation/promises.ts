import { isFinal, type LaunchRecord, listsApartMs, TRANSITIONS } from '../../src/scheduler/launch.ts';
import type { Disk } from '../simulation/disk.ts';
import type { Violation } from '../simulation/oracle.ts';
import type { FakeMachine, FakeProvider } from '../support/fakes/fake-provider.ts';
import { inARow } from './failures.ts';
import { AFTERMATH_MS } from './fault-hand.ts';
import type { FleetHost } from './fleet-host.ts';
import { Flips } from './flips.ts';
import type { Lists } from './lists.ts';
import type { Machines } from './machines.ts';
import { MostLately } from './most-lately.ts';
import type { ObjectLink } from './object-link.ts';
import type { FleetPlan } from './plan.ts';
import type { QueueHost } from './queue-host.ts';
import { RolloutPromises } from './rollout-promises.ts';
import { SeamPromises } from './seam-promises.ts';
import { Spend } from './spend.ts';
import { SpotPromises } from './spot-promises.ts';

/** A list that is this old says nothing any more, ms: three intervals and the time of a call. */
const STALE_MS = 80_000;
/** Two machines of one name, or one that nobody wants, are found and ended within so long, ms. */
const FOUND_WITHIN_MS = 6 * 60_000;
/** Whatever has become of a launch is known so long after it was asked for, ms. */
const ANSWERED_WITHIN_MS = 8 * 60_000;
/** A start that hangs gets so long, ms, or three times as long as starts take. */
const LEAST_DEADLINE_MS = 10 * 60_000;
/** Up and down again, of a pool in one run. */
const MOST_FLIPS = 6;
/** Failures in a row after which a pool is given up. */
const MOST_FAILURES = 5;

export interface Watched {
  plan: FleetPlan;
  disk: Disk;
  queue: QueueHost;
  host: FleetHost;
  link: ObjectLink;
  machines: Machines;
  providers: Record<string, FakeProvider>;
  /** Epoch ms, the true one. */
  now(): number;
  lists: Lists;
  /** Lists show, or have shown lately, what was some time ago. */
  listsLag(): boolean;
  /** When something last went wrong, epoch ms; infinite: it still does. */
  disturbedAt(): number;
  /** When an operator last resumed all pools, epoch ms: what failed before is forgiven. */
  resumedAt(): number;
}

/** Sees rows, machines and queue, and says when a promise is broken. It decides nothing in the run. */
export class Promises {
  violation: Violation | null = null;
  /** When a job last ran, epoch ms. */
  workedAt = Number.NEGATIVE_INFINITY;
  readonly #watched: Watched;
  readonly #texts = new Map<string, string>();
  readonly rows = new Map<string, LaunchRecord>();
  /** Since when a launch is asked for, and since when it is accepted, epoch ms, by the true clock. */
  readonly #asked = new Map<string, number>();
  readonly #accepted = new Map<string, number>();
  readonly #most = new MostLately();
  readonly #flips = new Flips();
  readonly #spend: Spend;
  /** Since when a pool's work has waited without a worker, epoch ms. */
  readonly #unserved = new Map<string, number>();
  readonly seam: SeamPromises;
  readonly rollouts: RolloutPromises;
  readonly #spot: SpotPromises;
  /** Since when there is more than one machine of a name, or one of a launch that has ended. */
  readonly #surplus = new Map<string, number>();

  constructor(watched: Watched) {
    this.#watched = watched;
    this.#spend = new Spend(watched.plan, watched.providers);
    const { plan } = watched;
    this.rollouts = new RolloutPromises({
      ...watched,
      rows: this.rows,
      isCalm: () => this.#isCalm(),
      violated: (promise, message) => this.violated(promise, message),
    });
    this.#spot = new SpotPromises({
      ...watched,
      rows: this.rows,
      isCalm: () => this.#isCalm(),
      violated: (promise, message) => this.violated(promise, message),
    });
    this.seam = new SeamPromises({
      ...watched,
      pools: Object.keys(plan.spec.pools),
      isSound: (id) => plan.soundness[id] === 'sound',
      rows: this.rows,
      isCalm: () => this.#isCalm(),
      violated: (promise, message) => this.violated(promise, message),
    });
  }

  /** The first one counts. */
  violated(promise: string, message: string): void {
    this.violation ??= { promise, message };
  }

  /** After each commit of the scheduler. */
  committed(): void {
    const found = this.#watched.disk.exec(`SELECT id, launch FROM launches`);
    for (const { id, launch } of found) {
      const text = String(launch);
      if (this.#texts.get(String(id)) === text) continue;
      this.#texts.set(String(id), text);
      const row = JSON.parse(text) as LaunchRecord;
      if (row.is_orphan) continue;
      this.#changed(this.rows.get(row.id), row);
      this.rows.set(row.id, row);
    }
    this.#spot.committed();
    this.#checkRows();
    this.rollouts.committed();
  }

  /** Somebody at the provider's: a machine is created, or about to be destroyed. */
  created(provider: string, machine: FakeMachine): void {
    const row = this.#named(machine.name);
    if (!row || row.state === 'intended') {
      this.violated('a launch is written before it is asked for', `${machine.name} at ${provider}`);
    }
    const { providers, listsLag } = this.#watched;
    const others = Object.values(providers).flatMap(({ alive }) =>
      alive.filter(({ name }) => name === machine.name),
    );
    if (others.length > 1 && !listsLag()) {
      this.violated('a launch is one machine', `${others.length} machines are named ${machine.name}`);
    }
  }

  destroyed(machine: FakeMachine): void {
    if (machine.name.startsWith('wv-foreign')) {
      this.violated('machines of others are left alone', machine.name);
    }
    const { queue, machines } = this.#watched;
    const worker = machines.workerOn(machine);
    if (!worker || worker.holds === 0) return;
    const session = queue.share()?.sessions.find(({ worker_id }) => worker_id === machine.name);
    // Of what it holds without a connection the queue may know better: others have it by now.
    const running = worker.isConnected ? (session?.running ?? 0) : queue.storedAt(machine.name);
    if (running > 0) this.violated('no busy worker is terminated', `${machine.name} runs ${running} jobs`);
  }

  /** Every second. */
  check(): void {
    const { plan, queue, now } = this.#watched;
    for (const id of Object.keys(plan.spec.pools)) {
      const { waiting, inSystem } = queue.jobsOf(id);
      this.#most.note(id, inSystem, now());
      if (inSystem > waiting) this.workedAt = now();
    }
    this.seam.check();
    this.rollouts.check();
    this.#spot.check();
    this.#checkMachines();
    this.#checkService();
    this.#checkOrders();
    this.#checkStarts();
    if (this.#spend.isBeyond(now(), this.#isCalm())) this.violated('the budget a day is kept', 'it is spent');
  }

  /** When it has been calm for long: longer than a worker is kept that has nothing to do. */
  checkEnd(): void {
    const { plan, queue, providers } = this.#watched;
    this.rollouts.checkEnd();
    for (const [id, { min }] of Object.entries(plan.spec.pools)) {
      if (plan.soundness[id] !== 'sound' || this.rollouts.isGivenUp(id)) continue;
      const { inSystem } = queue.jobsOf(id);
      if (inSystem > 0 && !this.#isPaidOut()) this.violated('all work is done', `${id}: ${inSystem} jobs`);
      const all = [...this.rows.values()].filter((row) => row.config_id === id && !isFinal(row));
      // A spot machine that has not served for long yet runs beside the worker that it replaces.
      const alive = all.filter(({ replaces }) => !all.some((other) => other.id === replaces));
      if (alive.length > min)
        this.violated('what is not needed is ended', `${id}: ${alive.map(inWords).join()}`);
    }
    for (const [provider, { alive }] of Object.entries(providers)) {
      for (const machine of alive) {
        if (machine.name.startsWith('wv-foreign')) continue;
        const row = this.#named(machine.name);
        if (row && !isFinal(row) && row.external_id === machine.id) continue;
        this.violated('nothing is forgotten', `${machine.name} still runs at ${provider}`);
      }
    }
  }

  #changed(before: LaunchRecord | undefined, row: LaunchRecord): void {
    this.#spot.changed(before, row);
    const flips = this.#flips.changed(before, row, this.#watched.now());
    if (flips > MOST_FLIPS * this.#beginnings())
      this.violated('a pool does not go up and down', `${flips} times: ${inWords(row)}`);
    if (!before) {
      if (row.state !== 'intended') this.violated('a launch begins as intended', inWords(row));
      this.#begun(row);
    } else if (before.state === 'ready' && row.state === 'draining' && this.#mayGiveUpNone()) {
      this.violated('nothing is given up while the queue is silent', inWords(row));
    } else if (before.state !== row.state && !canReach(before.state, row.state)) {
      this.violated('a launch goes through its states', `${before.state} → ${inWords(row)}`);
    } else if (isFinal(row) && !isFinal(before)) this.#ended(row);
  }

  /** The queue is silent, and no operator has said that all are to go. */
  #mayGiveUpNone(): boolean {
    const { link, host } = this.#watched;
    return link.isDown && host.operator !== 'drain';
  }

  /**
   * How often somebody begins with all pools: an operator who drains and resumes them does, and one who changes them,
   * of which each worker is replaced.
   */
  #beginnings(): number {
    const times: Partial<Record<string, number>> = { operator_drains: 1, pools_changed: 2 };
    const { faults, rollouts } = this.#watched.plan;
    return faults.reduce((sum, { kind }) => sum + (times[kind] ?? 0), 1 + 2 * rollouts.length);
  }

  /**
   * A launch is taken for gone. Where every list has lacked its machine for so long that the scheduler has to believe
   * them, it is an orphan from here on: `what nobody wants is ended` goes for it, and its jobs are to be done all the same.
   */
  #ended(row: LaunchRecord): void {
    const { providers, lists } = this.#watched;
    // Another of its name, which its provider made beside it, is one that nobody wants.
    const isItsOwn = ({ id }: FakeMachine) => row.external_id === null || row.external_id === id;
    const machine = Object.values(providers)
      .flatMap(({ alive }) => alive)
      .find((one) => one.name === row.name && !one.isStopped && isItsOwn(one));
    if (machine && lists.missingFor(row.name) < listsApartMs(row.host))
      this.violated('what still runs is not taken for gone', inWords(row));
  }

  /** A launch was decided. */
  #begun(row: LaunchRecord): void {
    const { plan, link, lists, now, resumedAt } = this.#watched;
    this.#spot.begun(row);
    if (link.isDown) this.violated('nothing is launched while the queue is silent', inWords(row));
    if (lists.ageOf(row.provider) > STALE_MS) {
      this.violated('nothing is launched where lists are stale', inWords(row));
    }
    const alive = [...this.rows.values()].filter((one) => one.config_id === row.config_id && !isFinal(one));
    const jobs = this.#most.most(row.config_id);
    if (row.replaces === null && alive.length >= jobs * 1.5 + 2 && this.#isCalm()) {
      this.violated(
        'no more are launched than have work',
        `${alive.length + 1} for ${jobs} jobs: ${inWords(row)}`,
      );
    }
    if (plan.soundness[row.config_id] === 'sound') return;
    const failed = [...this.rows.values()].filter(
      ({ config_id, version, cause, ended_at }) =>
        config_id === row.config_id &&
        version === row.version &&
        (cause === 'exited' || cause === 'start_deadline') &&
        (ended_at ?? now()) >= resumedAt(),
    );
    const failures = inARow(failed);
    const most = plan.soundness[row.config_id] === 'bad_model' ? 1 : MOST_FAILURES + 1;
    if (failures > most) {
      this.violated('a pool that fails is given up', `${inWords(row)} after ${failures} failures in a row`);
    }
  }

  #checkRows(): void {
    const { budget, pools } = this.#watched.plan.spec;
    const alive = [...this.rows.values()].filter((row) => !isFinal(row));
    for (const [id, { max }] of Object.entries(pools)) {
      const count = alive.filter(({ config_id }) => config_id === id).length;
      if (count > max) this.violated('no more than max are launched', `${id}: ${count} of ${max}`);
    }
    const price = alive.reduce((sum, { price_per_hour }) => sum + price_per_hour, 0);
    if (price > (budget.per_hour ?? Number.POSITIVE_INFINITY)) {
      this.violated('the budget an hour is kept', `$${price} an hour`);
    }
  }

  #checkMachines(): void {
    const { providers, now, disturbedAt } = this.#watched;
    const surplus = new Set<string>();
    for (const { alive } of Object.values(providers)) {
      const names = new Set<string>();
      for (const { name, id } of alive) {
        const row = this.#named(name);
        if (!name.startsWith('wv-foreign') && (names.has(name) || !row || isFinal(row)))
          surplus.add(`${name} ${id}`);
        names.add(name);
      }
    }
    for (const key of this.#surplus.keys()) if (!surplus.has(key)) this.#surplus.delete(key);
    for (const key of surplus) {
      const since = Math.max(this.#surplus.get(key) ?? now(), disturbedAt());
      this.#surplus.set(key, Math.min(this.#surplus.get(key) ?? now(), now()));
      if (now() - since > FOUND_WITHIN_MS) this.violated('what nobody wants is ended', key);
    }
  }

  /** With work that waits and machines to be had somebody is ready within three starts. */
  #checkService(): void {
    const { plan, queue, now, disturbedAt } = this.#watched;
    for (const id of Object.keys(plan.spec.pools)) {
      const isHelpless = plan.soundness[id] !== 'sound' || this.rollouts.isGivenUp(id) || this.#isPaidOut();
      if (queue.jobsOf(id).waiting === 0 || queue.isServed(id) || isHelpless) this.#unserved.delete(id);
      else this.#unserved.set(id, this.#unserved.get(id) ?? now());
      const since = Math.max(this.#unserved.get(id) ?? now(), disturbedAt());
      // One start may hang until its deadline.
      const limit = (660 + 3 * Math.max(plan.start * 1.5, 60)) * 1000;
      if (now() - since > limit)
        this.violated('work that waits is served', `${id} since ${(now() - since) / 1000} s`);
    }
  }

  /** Whatever becomes of an order, it is given again, or the lists tell that there is nothing. */
  #checkOrders(): void {
    const { now, disturbedAt } = this.#watched;
    for (const row of this.rows.values()) {
      if (row.state !== 'requested') continue;
      const asked = this.#asked.get(row.id) ?? now();
      this.#asked.set(row.id, asked);
      const since = Math.max(asked, disturbedAt() - AFTERMATH_MS);
      if (now() - since > ANSWERED_WITHIN_MS) this.violated('an order is not forgotten', inWords(row));
    }
  }

  /** A container that runs and never dials the queue is paid for. */
  #checkStarts(): void {
    const { plan, now, disturbedAt } = this.#watched;
    // Starts that faults made longer are learnt too.
    if (disturbedAt() !== Number.NEGATIVE_INFINITY) return;
    const limit = Math.max(LEAST_DEADLINE_MS, 3 * 2.5 * plan.start * 1000) + 60_000;
    for (const row of this.rows.values()) {
      if (row.state !== 'accepted') continue;
      const since = this.#accepted.get(row.id) ?? now();
      this.#accepted.set(row.id, since);
      if (now() - since > limit) this.violated('a start that hangs is given up', inWords(row));
    }
  }

  #isCalm(): boolean {
    const { now, disturbedAt } = this.#watched;
    return now() > disturbedAt();
  }

  #isPaidOut(): boolean {
    const { per_hour = Number.POSITIVE_INFINITY } = this.#watched.plan.spec.budget;
    const alive = [...this.rows.values()].filter((row) => !isFinal(row));
    const withOneMore = alive.reduce((sum, { price_per_hour }) => sum + price_per_hour, 2);
    return withOneMore > per_hour || this.#spend.isUsedUp(this.#watched.now(), withOneMore);
  }

  #named(name: string): LaunchRecord | undefined {
    // Names end with the launch's id.
    return this.rows.get(name.slice(name.lastIndexOf('-') + 1));
  }
}

/** In one commit it may take several steps. */
function canReach(from: LaunchRecord['state'], to: LaunchRecord['state']): boolean {
  const reached = new Set([from]);
  for (const state of reached) for (const next of TRANSITIONS[state]) reached.add(next);
  return reached.has(to);
}

function inWords({ name, state, provider, cause }: LaunchRecord): string {
  return `${name} is ${state} at ${provider}${cause ? ` (${cause})` : ''}`;
}
