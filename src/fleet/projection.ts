import type {
  AliasRow,
  Attention,
  FleetFrame,
  FleetSummary,
  FleetView,
  LaunchRow,
  PoolRow,
  ScalingSummary,
  Waiting,
  WorkerRow,
} from '../protocol/index.ts';
import { isOver } from '../scheduler/machines.ts';
import type { Incidents } from './incidents.ts';
import type { Machine, PoolAsking } from './rpc.ts';
import { attentionIn } from './view/attention.ts';
import { type PoolFacts, poolRow } from './view/pool-row.ts';
import type { Scaling } from './view/pool-start.ts';
import type { Problem } from './view/scaling-attention.ts';
import { recovering, type Steady, steadied, summaryOf } from './view/summary.ts';
import { whyNoneReady, whyWaiting } from './view/why-waiting.ts';
import { type StateNow, stateOf, workerRow } from './view/worker-row.ts';

/**
 * A worker that stopped is shown for this long, ms; a lost one for LOST_SHOWN_MS. `GET /api/workers` lists them longer.
 */
const STOPPED_SHOWN_MS = 3_600_000;
const LOST_SHOWN_MS = 24 * 3_600_000;
/**
 * The most removed rows that are remembered for viewers; a viewer whose version is older than all of them gets
 * everything.
 */
const MOST_GONE = 1000;

export interface FleetSources {
  /** Returns the machines whose workers have been heard of. */
  machines(): Iterable<Machine>;
  /** Returns the facts of the pools. @param named pools that workers belong to */
  pools(named: Iterable<string>, now: number): PoolFacts[];
  incidents(): Incidents;
  /** Returns a worker's newest 60 minutes, and when the next minute begins, epoch ms. */
  tokensHistory(workerId: string, now: number): { values: (number | null)[]; until: number };
  launches(): LaunchRow[];
  /** Returns these problems, with who has acknowledged them. */
  acknowledged(problems: Problem[], now: number): Attention[];
  /** Returns the scaling of all pools, or null if no fleet's file was applied. */
  scaling(): Scaling | null;
  /** Returns the aliases, with what each of their models answered lately. */
  aliases(now: number): AliasRow[];
}

/** A row as it is shown, and in which version it changed last. */
interface Shown<R> {
  row: R;
  /** The row as JSON. */
  text: string;
  version: number;
}

/** The inputs of a worker's row, and its state then. */
interface MadeOf {
  machine: Machine;
  expectedStartMs: number | null;
  state: StateNow;
  /** The moment from which time alone may change the row, epoch ms. */
  until: number;
}

interface Gone {
  kind: 'workers' | 'pools' | 'launches';
  id: string;
  version: number;
}

/**
 * The one view of the fleet, in versions: each row knows the version that changed it last, so that a viewer is sent the
 * rows changed after the viewer's version.
 */
export class Projection {
  readonly epoch: string = crypto.randomUUID();
  readonly #queueId: string;
  readonly #sources: FleetSources;
  #version = 0;
  #at = 0;
  readonly #made = new Map<string, MadeOf>();
  readonly #workers = new Map<string, Shown<WorkerRow>>();
  readonly #pools = new Map<string, Shown<PoolRow>>();
  readonly #launches = new Map<string, Shown<LaunchRow>>();
  #gone: Gone[] = [];
  /** The oldest version whose viewers can still learn of all rows that were removed. */
  #knowsGoneSince = 0;
  #summary!: FleetSummary;
  #steady: Steady | null = null;
  #attention: Attention[] = [];
  #scaling: ScalingSummary | null = null;
  #aliases: AliasRow[] = [];
  #head = '';
  /** The frames of the current version by the viewer's version; null: the full frame. */
  readonly #frames = new Map<number | null, string>();

  constructor(queueId: string, sources: FleetSources) {
    this.#queueId = queueId;
    this.#sources = sources;
  }

  get version(): number {
    return this.#version;
  }

  /** Refreshes the view; its version grows if that changes anything. @param now epoch ms */
  refresh(now: number): void {
    const machines = [...this.#sources.machines()];
    const scaling = this.#sources.scaling();
    const named = [...machines.flatMap((one) => poolOf(one) ?? []), ...(scaling?.pools.keys() ?? [])];
    const pools = this.#sources.pools(named, now);
    const launches = new Map(this.#sources.launches().map((launch) => [launch.id, launch]));
    const changes = [
      this.#show('launches', this.#launches, launches),
      this.#refreshWorkers(machines, pools, now),
      this.#refreshPools(pools, scaling, now),
    ];
    const [poolRows, workerRows] = [this.#poolRows(), this.#workerRows()];
    const launchRows = this.#launchRows();
    const problems = attentionIn(
      {
        pools: poolRows,
        workers: workerRows,
        launches: launchRows,
        scaling: scaling?.summary ?? null,
        incidents: this.#sources.incidents(),
      },
      now,
    );
    const attention = this.#sources.acknowledged(problems, now);
    const found = summaryOf({ pools: poolRows, workers: workerRows, launches: launchRows, attention }, now);
    this.#steady = steadied(this.#steady, found.verdict, now);
    const summary = recovering(found, this.#steady.shown);
    const aliases = this.#sources.aliases(now);
    const head = [
      `"summary":${JSON.stringify(summary)}`,
      `"attention":${JSON.stringify(attention)}`,
      `"scaling":${JSON.stringify(scaling?.summary ?? null)}`,
      `"aliases":${JSON.stringify(aliases)}`,
    ].join();
    this.#at = now;
    this.#frames.clear();
    if (head === this.#head && !changes.includes(true)) return;
    [this.#summary, this.#attention, this.#head] = [summary, attention, head];
    this.#scaling = scaling?.summary ?? null;
    this.#aliases = aliases;
    this.#version += 1;
  }

  /** Returns what the work for a pool waits for. @param now epoch ms */
  whyWaiting({ config_id, ...asking }: PoolAsking, now: number): Waiting {
    this.refresh(now);
    const row = this.#pools.get(config_id)?.row;
    const ofPool = (one: { config_id: string | null }) => one.config_id === config_id;
    const own = {
      workers: this.#workerRows().filter(ofPool),
      launches: this.#launchRows().filter(ofPool),
      scaling: row?.scaling ?? null,
      fleet: this.#scaling,
    };
    return row ? whyWaiting(row, own, asking, now) : whyNoneReady(config_id, own, now);
  }

  view(): FleetView {
    return {
      version: this.#version,
      epoch: this.epoch,
      at: this.#at,
      queue_id: this.#queueId,
      summary: this.#summary,
      attention: this.#attention,
      pools: this.#poolRows(),
      workers: this.#workerRows(),
      launches: this.#launchRows(),
      scaling: this.#scaling,
      aliases: this.#aliases,
    };
  }

  /**
   * Returns what is new to a viewer, as JSON of a FleetFrame.
   * @param known the viewer's version; null: it knows nothing of this epoch
   */
  frame(known: number | null): string {
    const base = known !== null && known >= this.#knowsGoneSince && known <= this.#version ? known : null;
    let text = this.#frames.get(base);
    if (text === undefined) {
      text = base === null ? this.#fullFrame() : this.#changedFrame(base);
      this.#frames.set(base, text);
    }
    return text;
  }

  #fullFrame(): string {
    return JSON.stringify({ type: 'full', view: this.view() } satisfies FleetFrame);
  }

  #changedFrame(base: number): string {
    const changed = (shown: Iterable<Shown<unknown>>) =>
      [...shown].flatMap(({ version, text }) => (version > base ? text : [])).join();
    const gone = (kind: Gone['kind']) =>
      this.#gone.filter((one) => one.kind === kind && one.version > base).map(({ id }) => id);
    return [
      `{"type":"changed","version":${this.#version},"at":${this.#at},${this.#head}`,
      `"pools":[${changed(this.#pools.values())}]`,
      `"workers":[${changed(this.#workers.values())}]`,
      `"launches":[${changed(this.#launches.values())}]`,
      `"gone":${JSON.stringify({ workers: gone('workers'), pools: gone('pools'), launches: gone('launches') })}}`,
    ].join();
  }

  /** Makes the rows of workers anew where they may have changed. @returns whether any row looks different now */
  #refreshWorkers(all: readonly Machine[], pools: readonly PoolFacts[], now: number): boolean {
    const expected = new Map(pools.map((one) => [one.config_id, one.expected_start_ms]));
    const rows = new Map<string, WorkerRow>();
    for (const machine of all) {
      const id = machine.worker_id;
      const expectedStartMs = expected.get(poolOf(machine) ?? '') ?? null;
      const before = this.#made.get(id);
      const isSame = before?.machine === machine && before.expectedStartMs === expectedStartMs;
      const shown = this.#workers.get(id);
      if (isSame && now < before.until) {
        if (shown) rows.set(id, shown.row);
        continue;
      }
      const state = withSince(stateOf(machine, isOver(machine), now), before?.state, now);
      const tokens = this.#sources.tokensHistory(id, now);
      const hidden = hiddenAt(state);
      const until = Math.min(state.until, tokens.until, hidden > now ? hidden : Number.POSITIVE_INFINITY);
      this.#made.set(id, { machine, expectedStartMs, state, until });
      if (hidden <= now) continue;
      rows.set(id, workerRow(machine, state, expectedStartMs, tokens.values));
    }
    const known = new Set(all.map(({ worker_id }) => worker_id));
    for (const id of this.#made.keys()) if (!known.has(id)) this.#made.delete(id);
    return this.#show('workers', this.#workers, rows);
  }

  #refreshPools(pools: readonly PoolFacts[], scaling: Scaling | null, now: number): boolean {
    const workers = Map.groupBy(this.#workerRows(), ({ config_id }) => config_id);
    const launches = Map.groupBy(this.#launchRows(), ({ config_id }) => config_id);
    const shown = pools.filter(
      ({ config_id, share }) => share || workers.has(config_id) || scaling?.pools.has(config_id),
    );
    const rows = shown.map((pool): [string, PoolRow] => {
      const { config_id } = pool;
      const own = {
        workers: workers.get(config_id) ?? [],
        launches: launches.get(config_id) ?? [],
        scaling: scaling?.pools.get(config_id) ?? null,
        fleet: scaling?.summary ?? null,
      };
      return [config_id, poolRow(pool, own, now)];
    });
    return this.#show('pools', this.#pools, new Map(rows));
  }

  /** Replaces rows that look different. @returns whether any does */
  #show<R>(kind: Gone['kind'], shown: Map<string, Shown<R>>, rows: ReadonlyMap<string, R>): boolean {
    const version = this.#version + 1;
    let hasChanged = false;
    for (const [id, row] of rows) {
      const before = shown.get(id);
      if (before?.row === row) continue;
      const text = JSON.stringify(row);
      if (before?.text === text) continue;
      shown.set(id, { row, text, version });
      hasChanged = true;
    }
    for (const id of shown.keys()) {
      if (rows.has(id)) continue;
      shown.delete(id);
      this.#gone.push({ kind, id, version });
      hasChanged = true;
    }
    const [dropped] = this.#gone.splice(0, Math.max(0, this.#gone.length - MOST_GONE)).slice(-1);
    if (dropped) this.#knowsGoneSince = dropped.version;
    return hasChanged;
  }

  #workerRows(): WorkerRow[] {
    return [...this.#workers.values()].map(({ row }) => row);
  }

  #launchRows(): LaunchRow[] {
    return [...this.#launches.values()].map(({ row }) => row).sort((a, b) => b.intended_at - a.intended_at);
  }

  #poolRows(): PoolRow[] {
    return [...this.#pools.values()].map(({ row }) => row);
  }
}

function poolOf({ session, config_id }: Machine): string | null {
  return session?.config_id ?? config_id;
}

/** Adds when the state began, if it began while this object watched. */
function withSince(state: StateNow, before: StateNow | undefined, now: number): StateNow {
  if (state.since !== null || !before) return state;
  return { ...state, since: before.state === state.state ? before.since : now };
}

function hiddenAt({ state, since }: StateNow): number {
  if (since === null) return Number.POSITIVE_INFINITY;
  if (state === 'lost') return since + LOST_SHOWN_MS;
  return state === 'stopped' ? since + STOPPED_SHOWN_MS : Number.POSITIVE_INFINITY;
}
