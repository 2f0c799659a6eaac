import type { AliasTable } from '../aliases/alias.ts';
import { type Alarm, createTables, type Sql } from '../durable/ports.ts';
import {
  bounds,
  type FleetHistory,
  type Heartbeat,
  type RequestRecord,
  shortName,
} from '../protocol/index.ts';
import type { DisplacedJobs } from '../scheduler/machines.ts';
import type { QueueFacts } from '../scheduler/rule-types.ts';
import { Scheduler } from '../scheduler/scheduler.ts';
import type { QueueSettingValues } from '../settings/queue-settings.ts';
import type { Alerting } from './alerting.ts';
import { AliasFigures } from './alias-figures.ts';
import { Audit } from './audit.ts';
import { History } from './history/history.ts';
import { PoolHistory } from './history/pool-history.ts';
import { marksOf, readHistory } from './history/read.ts';
import { ModelHistory, WorkerHistory } from './history/recorders.ts';
import { RecentIncidents } from './incidents.ts';
import { Machines } from './machines.ts';
import { choosePool, Models } from './models.ts';
import { KnownPools } from './pools.ts';
import { Projection } from './projection.ts';
import { Requests } from './requests.ts';
import type {
  FleetEvent,
  Forgotten,
  HistoryRange,
  Machine,
  PoolChoice,
  PoolStart,
  QueueShare,
  RecordAnswer,
  Subject,
} from './rpc.ts';
import { FLEET_TABLE_STEPS, FLEET_TABLES } from './tables.ts';
import { Telemetry } from './telemetry.ts';
import { SignIns, Tokens } from './tokens.ts';
import { type Objectives, USUAL_OBJECTIVES } from './view/pool-row.ts';
import { poolStart } from './view/pool-start.ts';
import { intervalMs } from './view/worker-row.ts';
import { WorkerFigures } from './worker-figures.ts';

const NO_ALIASES: AliasTable = {};

/** The pause between two sweeps, ms: what expires in between is deleted by the next sweep. */
const SWEEP_PAUSE_MS = 1000;

/** Fields of a heartbeat whose change is stored within a second. */
const SAVED_AT_ONCE = ['status', 'phase', 'error_message'] as const;

/** The ports of the fleet's rules. */
export interface FleetPorts {
  queueId: string;
  sql: Sql;
  alarm: Alarm;
  /** Returns the time, epoch ms. */
  now(): number;
  /** Returns a random name of lower-case letters and digits. */
  randomName(length: number): string;
  /** Makes the part that tells others of problems, once the tables are there. */
  alerting(): Alerting;
}

export type FleetSettings = Pick<QueueSettingValues, 'retention_seconds'>;

/**
 * Knows a queue's workers, models and machines beyond their connections: a part for each, and a method here for what
 * concerns several. It decides about no job. All of it is bounded: junk from one worker pushes out what was not seen
 * for the longest.
 */
export class Fleet {
  readonly machines: Machines;
  readonly models: Models;
  readonly history: History;
  readonly telemetry: Telemetry;
  readonly signIns: SignIns;
  readonly tokens: Tokens;
  readonly audit: Audit;
  /** The requests that have ended. */
  readonly requests: Requests;
  /** The work of each worker in the last ten minutes. */
  readonly figures = new WorkerFigures();
  /** The figures of the models of aliases, of the last ten minutes. */
  readonly #aliasFigures = new AliasFigures();
  readonly incidents = new RecentIncidents();
  readonly alerting: Alerting;
  /** Launches and ends the machines that run the workers. */
  readonly scheduler: Scheduler;
  /** The view of the fleet's parts that everybody sees. */
  readonly view: Projection;
  readonly #ports: FleetPorts;
  readonly #settings: FleetSettings;
  readonly #pools: KnownPools;
  readonly #workerHistory: WorkerHistory;
  readonly #modelHistory: ModelHistory;
  #hasShare = false;

  constructor(ports: FleetPorts, settings: FleetSettings) {
    const { queueId, sql, now } = ports;
    createTables(sql, FLEET_TABLES, FLEET_TABLE_STEPS);
    this.#ports = ports;
    this.#settings = settings;
    this.machines = new Machines(sql);
    this.models = new Models(sql);
    this.history = new History(sql, now);
    this.telemetry = new Telemetry(ports);
    this.signIns = new SignIns(sql);
    this.tokens = new Tokens(sql, now);
    this.audit = new Audit(sql);
    this.requests = new Requests(sql);
    this.alerting = ports.alerting();
    this.#workerHistory = new WorkerHistory(this.history);
    this.#modelHistory = new ModelHistory(this.history);
    this.#pools = new KnownPools(sql, new PoolHistory(this.history));
    this.scheduler = new Scheduler({
      ...ports,
      machines: this.machines,
      queue: () => this.facts(),
      figures: (ids) => this.figures.of(ids, ports.now()),
    });
    this.view = new Projection(queueId, {
      machines: () => this.machines.heard(),
      pools: (named, at) =>
        this.#pools
          .facts(named, at)
          .map((pool) => ({ ...pool, objectives: this.#objectives(pool.config_id) })),
      incidents: () => this.incidents.all(),
      tokensHistory: (workerId, at) => this.#workerHistory.tokens(workerId, at),
      launches: () => this.scheduler.launches(),
      acknowledged: (problems, at) => this.alerting.look(problems, at),
      scaling: () => this.scheduler.scaling(),
      aliases: (at) => this.#aliasFigures.rows(this.aliases, at),
    });
  }

  /** Takes a heartbeat. @returns whether it has news beside its measurements */
  heartbeat(beat: Heartbeat): boolean {
    const at = this.#ports.now();
    const { before, machine } = this.machines.heartbeat(beat, at);
    const { worker_id, config_id } = machine;
    this.#workerHistory.heartbeat(worker_id, beat, at, before?.heartbeat_at ?? null, intervalMs(beat));
    if (config_id !== null) {
      this.#pools.learn(config_id, worker_id, beat, at);
      this.#pools.preempted(config_id, beat, before?.heartbeat ?? null, at);
    }
    if (this.machines.workerCount > 2 * bounds.KNOWN_WORKERS) this.save();
    return !before?.heartbeat || SAVED_AT_ONCE.some((field) => before.heartbeat?.[field] !== beat[field]);
  }

  /**
   * Takes what the queue reports: events of its workers, the numbers that have changed, and requests that have ended.
   * @param failed the numbers of attempts that failed through their workers' fault, by worker
   * @param displaced what became of jobs that workers could not finish, by worker
   */
  record(
    events: readonly FleetEvent[],
    share?: QueueShare,
    ended: readonly RequestRecord[] = [],
    failed: Readonly<Record<string, number>> = {},
    displaced: Readonly<Record<string, DisplacedJobs>> = {},
  ): RecordAnswer {
    for (const event of events) {
      this.machines.record(event);
      this.models.record(event);
    }
    if (events.length > 0) this.incidents.served((model) => this.models.has(model));
    const news = this.requests.add(ended);
    this.figures.add(news, failed, this.#ports.now());
    this.#aliasFigures.add(news, this.#ports.now());
    for (const [id, jobs] of Object.entries(displaced)) {
      this.machines.displaced(id, jobs);
      this.scheduler.displaced(id, jobs);
    }
    this.#modelHistory.count(news, (model) => this.models.has(model), this.#ports.now());
    if (share) {
      this.machines.share(share);
      this.#pools.share(share, this.#ports.now());
      this.#level();
      this.#hasShare ||= share.full;
    }
    if (events.length > 0) this.#bound();
    return {
      wants: this.#hasShare ? null : 'full',
      starts: this.starts(),
      aliases: this.aliases,
    };
  }

  /** Forgets a worker that is gone, with what was measured of it. */
  forgetWorker(id: string): Forgotten {
    const done = this.machines.forget(id);
    if (done === 'forgotten') this.#workerHistory.forget(id);
    return done;
  }

  /** Whether the queue has reported all of its numbers since this object started. */
  get hasShare(): boolean {
    return this.#hasShare;
  }

  /** Lists the machines whose workers are connected; before the queue has reported, those that may be. */
  connected(): Machine[] {
    const all = [...this.machines.heard()];
    return all.filter(({ session, disconnected }) => (this.#hasShare ? session : !disconnected));
  }

  /** Stores the newest heartbeats, history, log lines and samples in one commit, and deletes what is too old. */
  save(): void {
    this.machines.save();
    this.#level();
    this.#pools.save();
    this.history.save();
    this.telemetry.save();
    this.#bound();
  }

  /**
   * Returns a subject's history, and what happened to its machines and workers in that time.
   * @param end epoch ms; null: now
   */
  readHistory(of: Subject, range: HistoryRange, end: number | null = null): FleetHistory {
    const now = this.#ports.now();
    const until = Math.min(end ?? now, now);
    const read = readHistory(this.history, of, { range, until, now });
    const from = read.at[0]!;
    const configId = of.kind === 'pool' ? of.id : null;
    const isOfWorkers = of.kind === 'pool' || of.kind === 'fleet';
    const marks = isOfWorkers
      ? marksOf(this.#pools.started(configId, from), this.scheduler.launches(), configId, from)
      : [];
    return { ...read, marks: marks.filter(({ at }) => at <= until) };
  }

  #objectives(configId: string): Objectives {
    const given = this.scheduler.specs.current()?.spec.pools[configId]?.objectives ?? {};
    const { first_token, success } = USUAL_OBJECTIVES;
    return {
      first_token: {
        within_ms: (given.first_token?.within ?? first_token.within_ms / 1000) * 1000,
        share: given.first_token?.share ?? first_token.share,
      },
      success: given.success ?? success,
    };
  }

  /** Notes the levels of the pools, for their history. */
  #level(): void {
    this.#pools.level(this.machines.heard(), this.scheduler.prices(), this.#ports.now());
  }

  /** The aliases of the fleet's file: another object after each change of the file. */
  get aliases(): AliasTable {
    // A file that an older version stored has none.
    return this.scheduler.specs.current()?.spec.aliases ?? NO_ALIASES;
  }

  /** Lists every pool that the scheduler starts workers for. */
  starts(): PoolStart[] {
    const { spec } = this.scheduler.specs.current() ?? {};
    if (!spec) return [];
    const facts = {
      launches: this.scheduler.launches(),
      sessions: this.machines.sessions(),
      known: this.models.newest(),
      scaling: this.scheduler.scaling(),
      outdated: this.scheduler.outdated(),
    };
    return Object.entries(spec.pools).map(([id, pool]) => poolStart(id, pool, facts, this.#ports.now()));
  }

  /** Returns what the scheduler has to know of the queue. */
  facts(): QueueFacts {
    return { isKnown: this.#hasShare, pools: this.#pools.counts() };
  }

  /** Chooses a pool for each model, in order. @param models null: the request names none */
  choosePools(models: readonly (string | null)[]): PoolChoice[] {
    const known = this.models.newest();
    const starts = this.starts();
    return models.map((model) => choosePool(known, starts, model));
  }

  /** Chooses a pool for each model of callers' requests, and notes an unknown model as an incident. */
  chooseForCallers(models: readonly (string | null)[]): PoolChoice[] {
    const choices = this.choosePools(models);
    for (const [index, choice] of choices.entries()) {
      const model = models[index];
      if (choice.kind === 'unknown' && model) {
        this.incidents.unknownModel(shortName(model), choice.models, this.#ports.now());
      }
    }
    return choices;
  }

  onAlarm(): void {
    this.#ports.alarm.clear();
    this.save();
  }

  /** Deletes what is too old or too much, and sets the alarm for the next time. */
  #bound(): void {
    const { alarm, now } = this.#ports;
    const workersMs = this.#settings.retention_seconds * 1000;
    const modelsMs = bounds.MODEL_KNOWN_SECONDS * 1000;
    const forgotten = this.machines.bound(now() - workersMs, bounds.KNOWN_WORKERS);
    for (const id of forgotten) this.#workerHistory.forget(id);
    this.figures.bound(now());
    this.#aliasFigures.bound(now());
    this.#pools.bound(now() - workersMs);
    const oldest: [number | null, number][] = [
      [this.models.bound(now() - modelsMs), modelsMs],
      [this.machines.longestUnheard(), workersMs],
      [this.telemetry.bound(now() - workersMs), workersMs],
      [this.requests.bound(now() - workersMs), workersMs],
    ];
    const next = Math.min(
      ...oldest.map(([at, keptMs]) => (at === null ? Number.POSITIVE_INFINITY : at + keptMs)),
    );
    const armed = alarm.get();
    if (next !== Number.POSITIVE_INFINITY && (armed === null || armed > next)) {
      alarm.set(Math.max(next, now() + SWEEP_PAUSE_MS));
    }
  }
}
