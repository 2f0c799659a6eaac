import type { Sql } from '../durable/ports.ts';
import type { Heartbeat, WorkerState } from '../protocol/index.ts';
import type { PoolCounts } from '../scheduler/rule-types.ts';
import { HISTOGRAM_NAMES } from './history/chunk.ts';
import { type Levels, NOTHING, type PoolHistory, type Told } from './history/pool-history.ts';
import type { Machine, PoolShare, QueueShare } from './rpc.ts';
import type { PoolFacts } from './view/pool-row.ts';
import { stateOf } from './view/worker-row.ts';

/** The expected duration of a start is the median of this many newest starts. */
const STARTS = 20;
/** The longest start that is counted, ms: a longer one means that the container stood still. */
const LONGEST_START_MS = 24 * 3_600_000;
/** The most pools that are remembered; a fleet has a few dozen. */
const MOST_POOLS = 500;

interface Pool {
  config_id: string;
  /** The queue's newest report of the pool; null: none since this object started. */
  share: PoolShare | null;
  /** The queue's counts that are in the history; null: none. */
  told: Told | null;
  starts: Start[];
  heard_at: number;
  isSaved: boolean;
}

/**
 * Stores what is known of every pool: what waits for it, what happened to its jobs, how long its workers take to start.
 */
export class KnownPools {
  readonly #sql: Sql;
  readonly #history: PoolHistory;
  readonly #byId: Map<string, Pool>;

  constructor(sql: Sql, history: PoolHistory) {
    this.#sql = sql;
    this.#history = history;
    this.#byId = new Map(
      storedPools(sql).map((pool) => [pool.config_id, { ...pool, share: null, isSaved: true }]),
    );
  }

  share({ full, pools }: QueueShare, at: number): void {
    if (full) for (const pool of this.#byId.values()) pool.share = null;
    for (const share of pools) {
      const pool = this.#pool(share.config_id, at);
      this.#history.count(share, pool.told, at);
      Object.assign(pool, { share, told: toldOf(share) });
    }
  }

  /** Notes the levels of all pools. @param prices US dollars an hour, by pool id */
  level(machines: Iterable<Machine>, prices: ReadonlyMap<string, number>, at: number): void {
    this.#history.level(this.#levels(machines, prices, at), at);
  }

  /** Counts the requests that an engine put back to wait since its worker's heartbeat before. */
  preempted(configId: string, beat: Heartbeat, before: Heartbeat | null, at: number): void {
    const [now, then] = [beat.preemptions ?? 0, before?.preemptions ?? beat.preemptions ?? 0];
    // The engine has started anew if it counts fewer.
    const preemptions = now < then ? now : now - then;
    if (preemptions > 0) this.#history.preempted(configId, preemptions, at);
  }

  /** Lists the newest starts of workers that ended since a time, oldest first. @param configId null: of all pools */
  started(configId: string | null, from: number): { at: number; worker_id: string; took_ms: number }[] {
    const pools = configId === null ? [...this.#byId.values()] : [this.#byId.get(configId)];
    return pools
      .flatMap((pool) => pool?.starts ?? [])
      .map(({ worker_id, created_ms, took_ms }) => ({ at: created_ms + took_ms, worker_id, took_ms }))
      .filter(({ at }) => at >= from)
      .sort((a, b) => a.at - b.at);
  }

  /** Returns each pool's counts, as the queue last reported them; the scheduler decides by them. */
  counts(): Map<string, PoolCounts> {
    const counts = new Map<string, PoolCounts>();
    for (const { config_id, share } of this.#byId.values()) if (share) counts.set(config_id, countsOf(share));
    return counts;
  }

  /** Learns how long a start took; each start is counted once. */
  learn(configId: string, workerId: string, { start }: Heartbeat, at: number): void {
    const { created_ms, engine_healthy_ms } = start ?? {};
    if (created_ms === undefined || engine_healthy_ms === undefined) return;
    const took_ms = engine_healthy_ms - created_ms;
    if (took_ms <= 0 || took_ms > LONGEST_START_MS) return;
    const known = this.#byId.get(configId)?.starts ?? [];
    if (known.some((one) => one.worker_id === workerId && one.created_ms === created_ms)) return;
    const starts = [...known, { worker_id: workerId, created_ms, took_ms }]
      .sort((a, b) => a.created_ms - b.created_ms)
      .slice(-STARTS);
    if (starts[0] !== known[0] || known.length < STARTS) this.#pool(configId, at).starts = starts;
  }

  /** Returns the facts of the pools. @param named more pools to include: those that workers belong to */
  facts(named: Iterable<string>, now: number): Omit<PoolFacts, 'objectives'>[] {
    const told = [...this.#byId.values()].flatMap(({ config_id, share }) => (share ? config_id : []));
    return [...new Set([...told, ...named])].sort().map((config_id) => {
      const pool = this.#byId.get(config_id);
      return {
        config_id,
        share: pool?.share ?? null,
        expected_start_ms: median(pool?.starts ?? []),
        ...this.#history.rates(config_id, now),
        met: this.#history.met(config_id, now),
      };
    });
  }

  save(): void {
    for (const pool of this.#byId.values()) {
      if (!pool.isSaved) savePool(this.#sql, pool);
      pool.isSaved = true;
    }
  }

  /**
   * Forgets pools last heard of by `heardBy` and, beyond a number, those not heard of for the longest. Pools with
   * counts of the queue go last: the queue's counts are cumulative, and without its last report all that ever happened
   * would count as new.
   */
  bound(heardBy: number): void {
    const junkFirst = [...this.#byId.values()].sort(
      (a, b) => Number(a.told !== null) - Number(b.told !== null) || a.heard_at - b.heard_at,
    );
    for (const { config_id, heard_at, told } of junkFirst) {
      const isOld = told === null && heard_at <= heardBy;
      if (!isOld && this.#byId.size <= MOST_POOLS) return;
      this.#byId.delete(config_id);
      this.#history.forget(config_id);
      forgetPool(this.#sql, config_id);
    }
  }

  #pool(config_id: string, at: number): Pool {
    const known = this.#byId.get(config_id) ?? { config_id, share: null, told: null, starts: [] };
    const pool = Object.assign(known, { heard_at: at, isSaved: false });
    this.#byId.set(config_id, pool);
    return pool;
  }

  #levels(machines: Iterable<Machine>, prices: ReadonlyMap<string, number>, at: number): Map<string, Levels> {
    const levels = new Map<string, Levels>();
    const of = (id: string): Levels => {
      const known = levels.get(id) ?? { ...NOTHING };
      levels.set(id, known);
      return known;
    };
    for (const { config_id, share } of this.#byId.values()) {
      if (!share) continue;
      const { pending, running } = share;
      Object.assign(of(config_id), { waiting: pending.waiting + pending.stored, running });
    }
    for (const machine of machines) {
      const { session } = machine;
      const id = session?.config_id ?? machine.config_id;
      const counted = STATES[stateOf(machine, false, at).state];
      if (id === null || counted === null) continue;
      const pool = of(id);
      pool[counted] += 1;
      if (session && session.state !== 'draining') pool.slots += session.capacity;
    }
    for (const [id, price] of prices) of(id).price_per_hour = price;
    return levels;
  }
}

/** The level in a pool's history that counts workers of each state; null: the worker is gone. */
const STATES = {
  ready: 'ready_workers',
  running: 'ready_workers',
  paused: 'paused_workers',
  starting: 'starting_workers',
  loading: 'starting_workers',
  draining: 'draining_workers',
  error: 'failed_workers',
  late: 'failed_workers',
  lost: 'failed_workers',
  stopped: null,
} as const satisfies Record<WorkerState, keyof Levels | null>;

/** Returns the queue's counts that the history contains from now on. */
function toldOf(share: PoolShare): Told {
  const buckets = HISTOGRAM_NAMES.map((name) => [`${name}_buckets`, share[`${name}_buckets`]]);
  return { totals: share.totals, ...Object.fromEntries(buckets) };
}

function countsOf(share: PoolShare): PoolCounts {
  const { pending, running, submitted_in_background, totals, by_priority } = share;
  const background = by_priority.filter(({ priority }) => priority < 0);
  return {
    waiting: pending.waiting + pending.stored,
    running,
    waiting_in_background: background.reduce((sum, { pending: jobs }) => sum + jobs, 0),
    submitted: totals.submitted,
    submitted_in_background,
    ended: totals.succeeded + totals.failed,
  };
}

function median(starts: readonly Start[]): number | null {
  const sorted = starts.map(({ took_ms }) => took_ms).sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  if (sorted.length % 2 === 1) return sorted[middle]!;
  return sorted.length === 0 ? null : Math.round((sorted[middle - 1]! + sorted[middle]!) / 2);
}

/** The duration of one start, from its container's first process to a healthy engine. */
interface Start {
  worker_id: string;
  /** When the start began, by the worker's clock; identifies the start together with the worker's id. */
  created_ms: number;
  took_ms: number;
}

interface StoredPool {
  config_id: string;
  told: Told | null;
  /** The newest starts, oldest first. */
  starts: Start[];
  heard_at: number;
}

function savePool(sql: Sql, { config_id, told, starts, heard_at }: StoredPool): void {
  sql.exec(
    `INSERT INTO pools (config_id, told, starts, heard_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (config_id) DO UPDATE SET told = excluded.told, starts = excluded.starts, heard_at = excluded.heard_at`,
    config_id,
    told && JSON.stringify(told),
    JSON.stringify(starts),
    heard_at,
  );
}

function storedPools(sql: Sql): StoredPool[] {
  return sql.exec(`SELECT * FROM pools`).map((row) => ({
    config_id: String(row.config_id),
    told: row.told === null ? null : (JSON.parse(String(row.told)) as Told),
    starts: JSON.parse(String(row.starts)) as Start[],
    heard_at: Number(row.heard_at),
  }));
}

function forgetPool(sql: Sql, configId: string): void {
  sql.exec(`DELETE FROM pools WHERE config_id = ?`, configId);
}
