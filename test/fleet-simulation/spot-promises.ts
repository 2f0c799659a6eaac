import { isFinal, type LaunchRecord } from '../../src/scheduler/launch.ts';
import type { FleetHost } from './fleet-host.ts';
import type { Lists } from './lists.ts';
import type { FleetPlan } from './plan.ts';

interface Watched {
  plan: FleetPlan;
  host: FleetHost;
  lists: Lists;
  /** By launch. */
  rows: ReadonlyMap<string, LaunchRecord>;
  now(): number;
  isCalm(): boolean;
  violated(promise: string, message: string): void;
}

/** What is refused, or fails, may be skipped for so long, ms. */
const SKIPPED_MS = 4 * 3_600_000;
/** A list that is younger is surely a fresh one, ms. */
const FRESH_MS = 30_000;
/** Failures in a row that stop a pool. */
const STOPS_AFTER = 5;
/** Workers that are replaced by those of the other kind in a run where nothing is taken back or refused. */
const MOST_SWAPS = 4;
/** Preemptions that are this far apart are two, ms. */
const APART_MS = 70_000;
const HOUR_MS = 3_600_000;
/** After two preemptions within an hour a type of machines rests for at least so long, ms. */
const RESTS_MS = 14 * 60_000;

/** What a pool may rely on whatever becomes of its spot machines. */
export class SpotPromises {
  readonly #watched: Watched;
  readonly #swaps = new Map<string, number>();
  readonly #begun: LaunchRecord[] = [];
  /** When machines of a type were taken back, epoch ms, by the true clock. */
  readonly #takenBack = new Map<string, number[]>();

  constructor(watched: Watched) {
    this.#watched = watched;
  }

  /** A launch was decided. */
  begun(row: LaunchRecord): void {
    this.#begun.push(row);
  }

  /** All launches of a commit are known: some of them may be the base of the others. */
  committed(): void {
    for (const row of this.#begun.splice(0)) {
      if (row.is_spot) {
        this.#checkBase(row);
        this.#checkRest(row);
      }
      this.#checkSwaps(row);
    }
  }

  /** A row has changed. */
  changed(before: LaunchRecord | undefined, row: LaunchRecord): void {
    if (row.cause !== 'preempted' || before?.cause === 'preempted') return;
    const key = typeOf(row);
    this.#takenBack.set(key, [...(this.#takenBack.get(key) ?? []), this.#watched.now()]);
  }

  /** Every second: nobody stops a pool whose machines were only taken back. */
  check(): void {
    const { plan, host, rows, violated } = this.#watched;
    const pools = host.rules?.scheduler.scaling()?.pools;
    for (const [id, { breaker }] of pools ?? []) {
      if (breaker === null || plan.soundness[id] !== 'sound') continue;
      const all = [...rows.values()].filter(({ config_id }) => config_id === id);
      if (!all.some(({ is_spot }) => is_spot)) continue;
      const failed = all.filter(
        ({ cause }) => cause === 'exited' || cause === 'start_deadline' || cause === 'lost',
      );
      if (failed.length < STOPS_AFTER)
        violated(
          'a preemption opens no breaker',
          `${id} is stopped after ${failed.length} failures: ${breaker.text}`,
        );
    }
  }

  /** A spot machine is launched: the base is complete, or no on-demand machine is to be had. */
  #checkBase(row: LaunchRecord): void {
    const { plan, isCalm, violated } = this.#watched;
    const pool = plan.spec.pools[row.config_id];
    if (!pool || !isCalm()) return;
    const others = this.#alive(row).filter(({ id }) => id !== row.id && id !== row.replaces);
    const base = others.filter(
      ({ is_spot, state }) => !is_spot && state !== 'draining' && state !== 'terminating',
    );
    const wanted = pool.spot?.base ?? (pool.batch_only ? 0 : 1);
    if (base.length < wanted && this.#isOnDemandToBeHad(row))
      violated(
        'the base is on-demand',
        `${row.name} is a spot machine, and ${base.length} of ${wanted} are on-demand`,
      );
  }

  /** A spot machine is launched: its type was not taken back twice lately, or there is nothing else. */
  #checkRest(row: LaunchRecord): void {
    const { plan, now, violated } = this.#watched;
    // The scheduler's clock jumps over the rest.
    if (plan.faults.some(({ kind }) => kind === 'clock_forward')) return;
    const times = this.#takenBack.get(typeOf(row)) ?? [];
    const newest = times.at(-1) ?? Number.NEGATIVE_INFINITY;
    const before = times.findLast((at) => newest - at > APART_MS);
    if (now() - newest > RESTS_MS || before === undefined || newest - before > HOUR_MS) return;
    if (this.#isOnDemandToBeHad(row))
      violated('a type that is taken back again and again rests', `${row.name} at ${row.provider}`);
  }

  #isOnDemandToBeHad({ config_id }: LaunchRecord): boolean {
    const { plan, lists } = this.#watched;
    const machines = plan.spec.pools[config_id]?.machines ?? [];
    return machines.some(
      (machine) => !machine.spot && lists.ageOf(machine.provider) < FRESH_MS && !this.#wasRefused(machine),
    );
  }

  #wasRefused({ provider, instance_type }: { provider: string; instance_type: string }): boolean {
    const { rows, now } = this.#watched;
    return [...rows.values()].some(
      (row) =>
        row.provider === provider &&
        row.instance_type === instance_type &&
        !row.is_spot &&
        row.cause !== null &&
        now() - row.state_at < SKIPPED_MS,
    );
  }

  /** Spot machines and those that stand in for them do not take turns. */
  #checkSwaps(row: LaunchRecord): void {
    const { rows, violated } = this.#watched;
    const replaced = row.replaces === null ? undefined : rows.get(row.replaces);
    if (!replaced || replaced.is_spot === row.is_spot) return;
    const { config_id } = row;
    const swaps = (this.#swaps.get(config_id) ?? 0) + 1;
    this.#swaps.set(config_id, swaps);
    const failed = [...rows.values()].filter((one) => one.config_id === config_id && one.cause !== null);
    if (swaps > MOST_SWAPS + 2 * failed.length)
      violated('spot machines and stand-ins do not take turns', `${config_id}: ${swaps} times`);
  }

  #alive({ config_id }: LaunchRecord): LaunchRecord[] {
    return [...this.#watched.rows.values()].filter((row) => row.config_id === config_id && !isFinal(row));
  }
}

function typeOf({ provider, instance_type }: LaunchRecord): string {
  return `${provider} ${instance_type}`;
}
