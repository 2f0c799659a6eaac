import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Row, Sql } from '../../src/durable/ports.ts';
import { History } from '../../src/fleet/history/history.ts';
import { type Levels, NOTHING, PoolHistory } from '../../src/fleet/history/pool-history.ts';
import { ModelHistory, WorkerHistory } from '../../src/fleet/history/recorders.ts';

import type { PoolShare } from '../../src/fleet/rpc.ts';
import {
  FIRST_TOKEN_BOUNDS,
  type Heartbeat,
  PER_TOKEN_BOUNDS,
  QUEUE_WAIT_BOUNDS,
  type RequestRecord,
} from '../../src/protocol/index.ts';
import { DEFAULT_QUEUE } from '../../src/settings/queue-settings.ts';
import { queueFolder } from '../../src/state/folder.ts';
import { openDatabase } from '../../src/state/sqlite.ts';
import { type DemoPool, PARTS, POOLS } from './cast.ts';

const MINUTE_MS = 60_000;
const STEP_MS = 10_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MINUTES = 24 * 60;
const WEEK_MINUTES = 7 * DAY_MINUTES;
const GIB = 2 ** 30;
/** Each stands for a share of the jobs of its minute. */
const SAMPLES = 20;
/** Saving rolls up so many rows at a time that are older than an hour. */
const SAVES = 40;

/**
 * Writes the week before into the fleet's database of a queue that is not running and has one: charts and rates of a
 * queue that has just begun are empty. Written by the code that reads it.
 */
export function writeHistory(stateDir: string): void {
  writeFleetDatabase(stateDir, (sql) => {
    let clock = Date.now();
    const history = new History(sql, () => clock);
    writePools(history, (at) => {
      clock = at;
    });
    clock = Date.now();
    writeWorkers(new WorkerHistory(history));
    for (let save = 0; save < SAVES; save++) history.save();
  });
}

/** Writes into the fleet's database of a queue that is not running and has one, all in one commit. */
export function writeFleetDatabase(stateDir: string, write: (sql: Sql) => void): void {
  const path = join(stateDir, 'data', queueFolder(DEFAULT_QUEUE), 'fleet.sqlite');
  if (!existsSync(path)) throw new Error(`there is no ${path}: start the queue once`);
  const database = openDatabase(path);
  database.exec('BEGIN');
  write(sqlOver(database));
  database.exec('COMMIT');
  database.close();
}

/** The newest minutes, the oldest first; without the minute that is not over. */
function* minutes(count = DAY_MINUTES): Generator<number> {
  const now = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
  for (let ago = count; ago > 0; ago--) yield now - ago * MINUTE_MS;
}

/** A week by the minute, its newest hour by the steps in which that is kept. */
function* steps(): Generator<{ at: number; ms: number }> {
  for (const at of minutes(WEEK_MINUTES)) {
    const ms = at < Date.now() - HOUR_MS ? MINUTE_MS : STEP_MS;
    for (let from = at; from < at + MINUTE_MS; from += ms) yield { at: from, ms };
  }
}

/** Share of the slots in use, which is more by day. */
function loadAt(at: number, pool: DemoPool): number {
  const most = Math.min(1, (pool.load.stored + pool.load.callers) / 36);
  const hours = at / (60 * MINUTE_MS);
  const wave = 0.72 + 0.22 * Math.sin((hours / 24) * 2 * Math.PI) + 0.06 * Math.sin(hours * 5.3);
  return Math.max(0.02, Math.min(1, most * wave * (0.9 + Math.random() * 0.2)));
}

function writeWorkers(workers: WorkerHistory): void {
  for (const { workerId, pool, role, ageSeconds } of PARTS) {
    if (role === 'loads' || role === 'fails') continue;
    let before: number | null = null;
    for (const at of minutes(Math.min(DAY_MINUTES, Math.floor(ageSeconds / 60)))) {
      const beat = {
        instance_id: workerId,
        status: 'running',
        ...readings(pool, loadAt(at, pool)),
      } as const;
      workers.heartbeat(workerId, beat, at, before, MINUTE_MS);
      before = at;
    }
  }
}

function readings(pool: DemoPool, load: number): Partial<Heartbeat> {
  const running = Math.round(pool.slots * load);
  const isChat = pool.load.maxTokens > 0;
  const gpu = {
    memory_used_bytes: pool.gpu.memoryGib * GIB * 0.9,
    utilization: load * 0.95,
    temperature_celsius: Math.round(34 + load * 36),
    power_watts: Math.round(pool.gpu.watts * (0.16 + load * 0.7)),
  };
  return {
    running,
    engine_running: running,
    engine_waiting: load > 0.95 ? 1 : 0,
    kv_cache_usage: 0.04 + load * 0.7,
    tokens_per_second: isChat ? running * pool.tokensPerSecond * (0.92 + Math.random() * 0.1) : 0,
    ...(isChat ? { first_token_ms: pool.firstTokenMs * (1 + load) * (0.9 + Math.random() * 0.3) } : {}),
    gpus: Array.from({ length: pool.gpu.count }, () => gpu),
  };
}

/** A week of all pools, rolled up as it would have been: the clock goes with it. */
function writePools(history: History, setClock: (at: number) => void): void {
  const pools = new PoolHistory(history);
  const models = new ModelHistory(history);
  const told = new Map<string, PoolShare>();
  for (const { at, ms } of steps()) {
    setClock(at);
    const levels = new Map<string, Levels>();
    for (const pool of POOLS) {
      const ready_workers = PARTS.filter((part) => part.pool === pool && part.role === 'works').length;
      const slots = ready_workers * pool.slots;
      const isChat = pool.load.maxTokens > 0;
      const tokens = Math.max(1, pool.load.maxTokens * 0.6);
      const load = loadAt(at, pool);
      const secondsEach = isChat ? tokens / pool.tokensPerSecond : 0.3;
      const jobs = Math.round(((isChat ? slots / secondsEach : 3.2) * load * ms) / 1000);
      const before = told.get(pool.id) ?? null;
      const share = withStep(before ?? emptyShare(pool.id), pool, jobs, load, isChat ? tokens : 0);
      pools.count(share, before, at);
      told.set(pool.id, share);
      models.count(recordsOf(pool, share, before), () => true, at);
      const waiting = load > 0.9 ? Math.round((load - 0.9) * 150) : 0;
      levels.set(pool.id, { ...NOTHING, waiting, running: Math.round(slots * load), slots, ready_workers });
    }
    pools.level(levels, at);
    if (at % HOUR_MS === 0) history.save();
  }
}

/** The jobs of a step by two records, as a busy queue samples them. */
function recordsOf(pool: DemoPool, share: PoolShare, before: PoolShare | null): RequestRecord[] {
  const came = (name: 'succeeded' | 'failed') => share.totals[name] - (before?.totals[name] ?? 0);
  const record = (outcome: 'succeeded' | 'failed'): RequestRecord[] => {
    const jobs = came(outcome);
    if (jobs === 0) return [];
    const first_token_ms = pool.load.maxTokens > 0 ? pool.firstTokenMs * (1 + Math.random()) : null;
    const tokens_out = Math.max(0, Math.round(pool.load.maxTokens * 0.6));
    return [
      {
        ...{ id: '', request_id: null, kind: 'live', submitted_at: 0, ended_at: 0, config_id: pool.id },
        ...{ model: pool.model, route: '', tenant: null, token_name: null, worker_id: 'w', attempts: 1 },
        ...{ outcome, error_code: null, error: null, tokens_in: 850, tokens_out, cached_tokens: 300 },
        ...{ wait_ms: 5, first_token_ms, is_slow: false, stands_for: jobs },
        total_ms: (first_token_ms ?? 300) + (tokens_out * 1000) / Math.max(1, pool.tokensPerSecond),
      },
    ];
  };
  return [...record('succeeded'), ...record('failed')];
}

function emptyShare(config_id: string): PoolShare {
  const totals = {
    ...{ submitted: 0, succeeded: 0, failed: 0, cancelled: 0, expired: 0, rejected: 0, turned_away: 0 },
    ...{ tokens_in: 0, tokens_out: 0, tokens_cached: 0, tokens_predicted: 0 },
  };
  const nothing = {
    pending: { waiting: 0, stored: 0 },
    by_priority: [],
    oldest_since: null,
    oldest_caller_since: null,
    running: 0,
    submitted_in_background: 0,
  };
  const buckets = {
    wait_buckets: [],
    first_token_buckets: [],
    live_first_token_buckets: [],
    per_token_buckets: [],
    duration_buckets: [],
  };
  return { config_id, ...nothing, totals, ...buckets };
}

function withStep(share: PoolShare, pool: DemoPool, jobs: number, load: number, tokens: number): PoolShare {
  const failed = Math.floor(jobs * 0.015 * Math.random() + Math.random());
  const { totals } = share;
  const wait = () => 0.004 + Math.random() ** 3 * (load > 0.9 ? 25 : 0.06);
  const firstToken = () => wait() + (pool.firstTokenMs / 1000) * (1 + load) * (0.7 + Math.random());
  const perToken = () => ((1 + load * 0.6) * (0.8 + Math.random() * 0.5)) / pool.tokensPerSecond;
  return {
    ...share,
    totals: {
      ...totals,
      submitted: totals.submitted + jobs,
      succeeded: totals.succeeded + jobs - failed,
      failed: totals.failed + failed,
      tokens_in: totals.tokens_in + jobs * 850,
      tokens_cached: totals.tokens_cached + jobs * 300,
      tokens_predicted: totals.tokens_predicted + jobs * 280,
      tokens_out: totals.tokens_out + Math.round(jobs * tokens),
    },
    wait_buckets: withSamples(share.wait_buckets, QUEUE_WAIT_BOUNDS, jobs, wait),
    first_token_buckets:
      tokens > 0
        ? withSamples(share.first_token_buckets, FIRST_TOKEN_BOUNDS, jobs, firstToken)
        : share.first_token_buckets,
    per_token_buckets:
      tokens > 0
        ? withSamples(share.per_token_buckets, PER_TOKEN_BOUNDS, jobs, perToken)
        : share.per_token_buckets,
  };
}

/** Cumulative counts, last of all. @param draw a value in s */
function withSamples(
  counts: readonly number[],
  bounds: readonly number[],
  jobs: number,
  draw: () => number,
): number[] {
  const next = Array.from({ length: bounds.length + 1 }, (_, bucket) => counts[bucket] ?? 0);
  for (let sample = 0; sample < SAMPLES; sample++) {
    const [value, weight] = [draw(), Math.floor(jobs / SAMPLES + Math.random())];
    for (let bucket = 0; bucket < next.length; bucket++) {
      if (value <= (bounds[bucket] ?? Number.POSITIVE_INFINITY)) next[bucket]! += weight;
    }
  }
  return next;
}

function sqlOver(database: DatabaseSync): Sql {
  const statements = new Map<string, StatementSync>();
  return {
    exec: (query, ...bindings) => {
      const statement = statements.get(query) ?? database.prepare(query);
      statements.set(query, statement);
      return statement.all(...bindings) as Row[];
    },
  };
}
