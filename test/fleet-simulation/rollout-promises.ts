import type { PoolScaling } from '../../src/protocol/index.ts';
import { isFinal, type LaunchRecord } from '../../src/scheduler/launch.ts';
import { inARow } from './failures.ts';
import type { FleetHost } from './fleet-host.ts';
import type { FleetPlan } from './plan.ts';
import type { QueueHost } from './queue-host.ts';
import { FATE_VARIABLE, type Fate } from './rollout-plan.ts';

interface Watched {
  plan: FleetPlan;
  queue: QueueHost;
  host: FleetHost;
  /** By launch. */
  rows: ReadonlyMap<string, LaunchRecord>;
  now(): number;
  /** Nothing has gone wrong lately: accidents take workers too. */
  isCalm(): boolean;
  /** When an operator last had all pools resumed, changed or rolled, epoch ms: what failed before is forgiven. */
  resumedAt(): number;
  violated(promise: string, message: string): void;
}

/** A start may hang once until its deadline, s; what a version has to prove; what a job runs; what a machine takes to end. */
const HANG_SECONDS = 660;
const PROOF_SECONDS = 630;
const DRAIN_SECONDS = 200;
/** What an operator says is heard within so long, and what follows from a failure is decided, ms. */
const HEARD_WITHIN_MS = 60_000;
const DECIDED_WITHIN_MS = 5 * 60_000;
/** Launches of a version that fail one after the other, and workers of it that end after they were ready, until it is stopped. */
const MOST_FAILURES = 5;
const MOST_DEATHS = 2;

/** Sees that rollouts leave no gap, one at a time, and end. */
export class RolloutPromises {
  readonly #watched: Watched;
  /** By pool: as many as it has to have, and had when it was changed. */
  readonly #changed = new Map<string, { needs: number; had: number }>();
  /** Since when a pool has had workers of another version than the wanted one, by the wanted version. */
  readonly #rolling = new Map<string, { wanted: string; since: number; workers: number }>();
  /** The launches that had failed when an operator last said something. */
  #forgiven: ReadonlySet<string> = new Set();
  /** Since when a pool has wanted a version that has failed, by that version. */
  readonly #failing = new Map<string, { wanted: string; since: number }>();

  /** What is shown of the pools, until the next commit: it takes long to compute. */
  #pools: ReadonlyMap<string, PoolScaling> | null = null;

  constructor(watched: Watched) {
    this.#watched = watched;
  }

  #shown(id: string): PoolScaling | undefined {
    this.#pools ??= this.#watched.host.rules?.scheduler.scaling()?.pools ?? null;
    return this.#pools?.get(id);
  }

  /** An operator has just put other settings of every pool in force, or gone back. */
  changed(): void {
    // At the end of a day's budget everything is drained.
    if (this.#watched.plan.spec.budget.per_day !== undefined) return;
    for (const id of Object.keys(this.#watched.plan.spec.pools)) {
      // A change shortly before may have taken one away already.
      const had = Math.max(this.#serving(id), this.#changed.get(id)?.needs ?? 0);
      this.#changed.set(id, { needs: had, had });
    }
  }

  /** After each commit, since the rule may want fewer for a moment only. */
  committed(): void {
    this.#pools = null;
    this.#note();
  }

  #note(): void {
    const scheduler = this.#watched.host.rules?.scheduler;
    for (const [id, pool] of this.#changed) {
      pool.needs = Math.min(pool.needs, scheduler?.wantedWorkers(id) ?? pool.needs);
    }
  }

  /** Every second. */
  check(): void {
    this.#note();
    if (!this.#watched.isCalm()) {
      this.#changed.clear();
      this.#rolling.clear();
      this.#failing.clear();
    }
    this.#forgive();
    for (const id of Object.keys(this.#watched.plan.spec.pools)) {
      this.#checkServing(id);
      this.#checkOne(id);
      this.#checkLasts(id);
      this.#checkStops(id);
    }
  }

  /** Whether the pool's version fails, and there is none to go back to: nobody can serve what waits. */
  isGivenUp(id: string): boolean {
    if (this.#watched.plan.rollouts.length === 0) return false;
    const { breaker = null, versions = [] } = this.#shown(id) ?? {};
    const wanted = versions.find(({ state }) => state === 'wanted');
    // Five starts that hang until their deadlines take longer than anyone is to wait.
    const hangs = wanted?.what.includes(`${FATE_VARIABLE}=${'never_registers' satisfies Fate}`) ?? false;
    return breaker !== null || (hangs && !versions.some(({ is_proved }) => is_proved));
  }

  /** At the end. */
  checkEnd(): void {
    for (const id of Object.keys(this.#watched.plan.spec.pools)) {
      const kept = this.#shown(id)?.versions ?? [];
      const wanted = kept.find(({ state }) => state === 'wanted');
      for (const row of this.#alive(id)) {
        const version = kept.find((one) => one.version === row.version);
        if (version?.state === 'stopped' && row.state !== 'terminating')
          this.#watched.violated(
            'of a version that is stopped nothing is left',
            `${row.name} is ${row.state}`,
          );
      }
      if (wanted?.stopped_because)
        this.#watched.violated('a version that is stopped is not wanted', `${id}: ${wanted.version}`);
    }
  }

  #checkServing(id: string): void {
    const changed = this.#changed.get(id);
    if (!changed) return;
    const { needs, had } = changed;
    const { budget, pools } = this.#watched.plan.spec;
    const { unavailable, surge } = pools[id]!.update;
    // Without room for one more, one goes first; the only one does where it has nothing to do.
    const mayLackRoom = budget.per_hour !== undefined || had + surge > (pools[id]?.max ?? 0);
    const room = Math.max(unavailable, mayLackRoom ? 1 : 0);
    const least = needs - room;
    const serving = this.#serving(id);
    if (serving >= least || this.#hasDied(id)) return;
    this.#watched.violated(
      'a changed pool never falls below what is wanted',
      `${id}: ${serving} serve, ${needs} are needed of the ${had} that it had`,
    );
  }

  /** One of its workers has ended by itself lately: no rollout is to blame. */
  #hasDied(id: string): boolean {
    const since = this.#watched.now() - 300_000;
    return [...this.#watched.rows.values()].some(
      (row) => row.config_id === id && row.ready_at !== null && row.cause !== null && row.state_at > since,
    );
  }

  /** There is one rollout: besides the wanted version only the one that served before is launched, and within surge. */
  #checkOne(id: string): void {
    if (!this.#watched.isCalm()) return;
    const versions = this.#shown(id)?.versions ?? [];
    const starting = this.#alive(id).filter(
      ({ ready_at, state }) => ready_at === null && state !== 'terminating',
    );
    const beginning = starting.filter(({ state }) => state === 'intended');
    const others = new Set(
      beginning.flatMap(({ version }) =>
        versions.find((one) => one.version === version)?.state === 'stopped' ? version : [],
      ),
    );
    if (others.size > 0)
      this.#watched.violated('a version that is stopped is not launched', `${id}: ${[...others].join()}`);
    const { surge, unavailable } = this.#watched.plan.spec.pools[id]!.update;
    const serves = new Set(this.#alive(id).flatMap((row) => (row.state === 'ready' ? row.id : [])));
    const byId = this.#watched.rows;
    const beside = starting.filter(
      (row) =>
        row.replaces !== null && serves.has(row.replaces) && byId.get(row.replaces)?.version !== row.version,
    );
    if (beside.length > surge + unavailable)
      this.#watched.violated('no more start beside than surge says', `${id}: ${beside.length} of ${surge}`);
  }

  #forgive(): void {
    const { rows, now, resumedAt } = this.#watched;
    if (now() > resumedAt() + HEARD_WITHIN_MS) return;
    this.#forgiven = new Set([...rows.values()].flatMap((row) => (row.cause === null ? [] : row.id)));
    this.#failing.clear();
  }

  /** A version that fails is wanted no more soon after, if another one was proved. */
  #checkStops(id: string): void {
    const { now, isCalm } = this.#watched;
    const shown = this.#shown(id);
    const wanted = shown?.versions.find(({ state }) => state === 'wanted');
    const hasOther = shown?.versions.some(
      ({ version, is_proved, state }) =>
        version !== wanted?.version && is_proved && (state === 'old' || state === 'kept'),
    );
    const isFailing =
      wanted?.is_proved === false &&
      hasOther &&
      shown?.control === 'automatic' &&
      shown.rollout?.state !== 'paused' &&
      this.#hasFailed(id, wanted.version);
    if (!isFailing || !isCalm()) return void this.#failing.delete(id);
    const known = this.#failing.get(id);
    if (known?.wanted !== wanted.version)
      return void this.#failing.set(id, { wanted: wanted.version, since: now() });
    if (now() - known.since > DECIDED_WITHIN_MS)
      this.#watched.violated('a version that fails is stopped', `${id}: ${wanted.version} is wanted still`);
  }

  /** By their own fault all its launches failed one after the other, or most of its workers that were ready ended. */
  #hasFailed(id: string, version: string): boolean {
    const own = [...this.#watched.rows.values()].filter(
      (row) => row.config_id === id && row.version === version && !this.#forgiven.has(row.id),
    );
    const wereReady = own.filter(({ ready_at }) => ready_at !== null);
    const failed = own.filter(({ cause }) => cause === 'exited' || cause === 'start_deadline');
    const died = failed.filter(({ ready_at, cause }) => ready_at !== null && cause === 'exited');
    return (
      (wereReady.length === 0 && inARow(failed) >= MOST_FAILURES) ||
      (died.length >= MOST_DEATHS && 2 * died.length >= wereReady.length)
    );
  }

  /** A rollout ends within the sum of its starts, proofs and drains, if its version is sound and there is room. */
  #checkLasts(id: string): void {
    const { plan, host, now } = this.#watched;
    const scheduler = host.rules?.scheduler;
    const shown = this.#shown(id);
    const wanted = shown?.versions.find(({ state }) => state === 'wanted')?.version;
    const pool = plan.spec.pools[id]!;
    const old = this.#alive(id).filter((row) => row.state === 'ready' && row.version !== wanted);
    const isMeasured =
      wanted !== undefined &&
      old.length > 0 &&
      shown?.rollout?.state !== 'paused' &&
      shown?.control === 'automatic' &&
      shown.rollout?.is_stuck !== true &&
      plan.soundness[id] === 'sound' &&
      plan.spec.budget.per_hour === undefined &&
      plan.spec.budget.per_day === undefined &&
      host.isUp;
    if (!isMeasured) return void this.#rolling.delete(id);
    const known = this.#rolling.get(id);
    if (known?.wanted !== wanted)
      return void this.#rolling.set(id, { wanted, since: now(), workers: old.length });
    known.workers = Math.max(known.workers, old.length);
    const each = 2.5 * plan.start + DRAIN_SECONDS;
    const fate = scheduler?.specs.current()?.spec.pools[id]?.env[FATE_VARIABLE];
    if (fate !== undefined && fate !== 'sound') return;
    const limit =
      (known.workers + 1) * each +
      2 * HANG_SECONDS +
      PROOF_SECONDS +
      pool.update.patience +
      (pool.update.canary?.for ?? 0);
    if (now() - known.since > limit * 1000)
      this.#watched.violated(
        'a rollout ends',
        `${id}: ${Math.round((now() - known.since) / 1000)} s, ${shown.rollout?.text}`,
      );
  }

  #alive(id: string): LaunchRecord[] {
    return [...this.#watched.rows.values()].filter((row) => row.config_id === id && !isFinal(row));
  }

  #serving(id: string): number {
    const { queue } = this.#watched;
    const sessions = queue.share()?.sessions ?? [];
    return sessions.filter(
      ({ config_id, worker_id, state, capacity }) =>
        config_id === id && state !== 'draining' && capacity > 0 && !queue.cordoned.has(worker_id),
    ).length;
  }
}
