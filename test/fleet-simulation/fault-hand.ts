import type { Timeline } from '../simulation/timeline.ts';
import type { Accidents } from '../support/fakes/accidents.ts';
import type { FakeProvider } from '../support/fakes/fake-provider.ts';
import type { FleetHost } from './fleet-host.ts';
import type { Machines } from './machines.ts';
import type { ObjectLink } from './object-link.ts';
import type { Fault } from './plan.ts';
import type { QueueHost } from './queue-host.ts';
import { FATE_VARIABLE, type PlannedRollout } from './rollout-plan.ts';
import { takeSpotBack } from './spot-faults.ts';
import { isSpotKind, type SpotKind } from './spot-plan.ts';

/** What an accident leaves behind is over so long after it, ms: back-off, breakers, leases. */
export const AFTERMATH_MS = 15 * 60_000;

/** Of a call between the objects, each way: longer than the scheduler waits for an answer. */
const SLOW_MS = 6000;

/** After which something else happens to a pool that an operator drains. */
const MEANWHILE_MS = 3000;

/** What can go wrong. */
interface FaultyWorld {
  timeline: Timeline;
  providers: Record<'cloud' | 'other', FakeProvider>;
  /** What a sync may suffer on its way. */
  network: { isCut: boolean; answersLost: number; doubles: boolean };
  /** Launches to come, and the chance of each list. */
  calls: { launcherDies: number; listIsEmpty: number };
  queue: QueueHost;
  link: ObjectLink;
  host: FleetHost;
  machines: Machines;
  killLauncher(): void;
  /** What serves from now on is watched. */
  poolsChanged(): void;
  note(line: string): void;
}

type Accident = Fault & { kind: Exclude<Fault['kind'], 'pools_changed' | SpotKind> };

/** Makes go wrong what the plan says. */
export class FaultHand {
  readonly #world: FaultyWorld;
  readonly #lasting = new Set<Fault>();
  #lagsUntil = 0;
  #newestAt = Number.NEGATIVE_INFINITY;
  /** When an operator last resumed all pools, epoch ms. */
  resumedAt = Number.NEGATIVE_INFINITY;

  constructor(world: FaultyWorld) {
    this.#world = world;
  }

  /** Until when nobody can be blamed, epoch ms. */
  disturbedAt(): number {
    return this.#lasting.size > 0 ? Number.POSITIVE_INFINITY : this.#newestAt + AFTERMATH_MS;
  }

  /** Something goes wrong, or did until now: also what was to go wrong the next time it is tried. */
  strikes(): void {
    this.#newestAt = this.#world.timeline.now;
  }

  /** Lists show what was some time ago, or did until lately. */
  listsLag(): boolean {
    return this.#world.timeline.now < this.#lagsUntil;
  }

  begin(fault: Fault): void {
    const { timeline } = this.#world;
    this.#world.note(`FAULT ${fault.kind} ${fault.provider} ${fault.size}, ${fault.lasts} s`);
    if (fault.kind === 'pools_changed') return this.#changePools();
    this.strikes();
    const { kind } = fault;
    if (isSpotKind(kind)) return takeSpotBack(this.#world, { ...fault, kind });
    const end = this.#happen(fault as Accident);
    if (!end) return;
    this.#lasting.add(fault);
    timeline.after(fault.lasts * 1000, () => {
      end();
      this.#world.note(`over: ${fault.kind}`);
      this.#lasting.delete(fault);
      this.strikes();
    });
  }

  /** An operator rolls the pools. Nothing goes wrong by that. */
  roll({ what }: PlannedRollout, earlier: readonly PlannedRollout[]): void {
    const { host } = this.#world;
    this.#world.note(`ROLLOUT ${JSON.stringify(what)}`);
    const files = earlier.filter((one) => one.what.kind === 'file');
    if (what.kind === 'file') host.changePools({ RELEASE: String(files.length), [FATE_VARIABLE]: what.fate });
    else if (what.kind === 'file_back') {
      const before = files.at(-2)?.what;
      const env: Record<string, string> =
        before?.kind === 'file' ? { RELEASE: String(files.length - 2), [FATE_VARIABLE]: before.fate } : {};
      host.changePools(env);
    } else host.roll({ action: what.kind });
    this.#world.poolsChanged();
    this.resumedAt = this.#world.timeline.now;
  }

  #changePools(): void {
    this.#world.host.changePools({ CHANGED: '1' });
    this.#world.poolsChanged();
    this.resumedAt = this.#world.timeline.now;
  }

  /** What ends it; null: it has no end of its own. */
  #happen({ kind, provider, size, lasts }: Accident): (() => void) | null {
    const { providers, network, calls, queue, link, host, machines, timeline } = this.#world;
    const { accidents } = providers[provider];
    switch (kind) {
      case 'provider_outage':
        return during(accidents, 'is_down', true, false);
      case 'no_capacity':
        return during(accidents, 'no_capacity', Number.POSITIVE_INFINITY, 0);
      case 'created_but_5xx':
      case 'created_but_error':
      case 'throttled':
      case 'destroy_fails':
        accidents[kind] += size;
        return null;
      case 'stale_lists':
        this.#lagsUntil = timeline.now + lasts * 1000 + AFTERMATH_MS;
        return during(accidents, 'list_lag_ms', 60_000, 0);
      case 'slow_starts':
        return during(accidents, 'start_takes_ms', 400_000, 0);
      case 'slow_ends':
        return during(accidents, 'end_takes_ms', 30_000 * size, 0);
      case 'stuck_starts':
        return during(accidents, 'stuck_loading', true, false);
      case 'restarts_for_ever':
        return during(accidents, 'restarts_for_ever', true, false);
      case 'machine_vanishes': {
        const machine = providers[provider].alive.find(({ name }) => !name.startsWith('wv-foreign'));
        if (machine) providers[provider].vanish(machine);
        return null;
      }
      case 'machine_doubled': {
        // Its provider made two of one request, and tells the launcher of one. The other never comes up.
        const { machines: made, alive } = providers[provider];
        const machine = alive.find(({ name }) => !name.startsWith('wv-foreign'));
        if (machine)
          made.push({ ...machine, id: `${machine.id}-again`, startedAt: Number.POSITIVE_INFINITY });
        return null;
      }
      case 'worker_away':
        machines.sendAway(timeline.now + lasts * 1000);
        return () => {};
      case 'queue_silent':
        link.cut();
        return () => link.mend();
      case 'queue_killed':
        queue.kill();
        return null;
      case 'reports_lost':
        link.answersLost += size;
        return null;
      case 'operator_drains': {
        host.control('drain');
        timeline.after(MEANWHILE_MS, () => {
          if (size === 2) machines.redialAll();
          if (size === 3) queue.kill();
          if (size === 4) host.kill();
        });
        return () => {
          host.control('resume');
          this.resumedAt = timeline.now;
        };
      }
      case 'objects_slow':
        link.slowMs = SLOW_MS;
        return () => {
          link.slowMs = 0;
        };
      case 'scheduler_killed':
        host.kill();
        return null;
      case 'fleet_evicted':
        host.evict();
        return null;
      case 'scheduler_dies_in_steps':
        host.deathChance = 0.1;
        return () => {
          host.deathChance = 0;
        };
      case 'launcher_killed':
        this.#world.killLauncher();
        return null;
      case 'launcher_dies_in_calls':
        calls.launcherDies += size;
        return null;
      case 'lists_empty':
        calls.listIsEmpty = 0.15;
        return () => {
          calls.listIsEmpty = 0;
        };
      case 'launcher_cut_off':
        network.isCut = true;
        return () => {
          network.isCut = false;
        };
      case 'answers_lost':
        network.answersLost += size;
        return null;
      case 'orders_doubled':
        network.doubles = true;
        return () => {
          network.doubles = false;
        };
      case 'clock_forward':
        host.skewMs += size * 1_200_000;
        return null;
      case 'clock_back':
        host.setClockBack(size * 120_000);
        return null;
    }
  }
}

function during<K extends keyof Accidents>(
  accidents: Accidents,
  kind: K,
  on: Accidents[K],
  off: Accidents[K],
): () => void {
  accidents[kind] = on;
  return () => {
    accidents[kind] = off;
  };
}
