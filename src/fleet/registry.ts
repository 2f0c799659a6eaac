import { migrate } from '../durable/migrate.ts';
import type { Alarm, Sql } from '../durable/ports.ts';
import { randomText } from '../durable/random-text.ts';
import { type FleetHistory, type Heartbeat, limits, shortName } from '../protocol/index.ts';
import type { FleetFacts } from '../scheduler/facts.ts';
import { Scheduler } from '../scheduler/scheduler.ts';
import type { QueueSettingValues } from '../settings/queue-settings.ts';
import { chooseConfig } from './choose-config.ts';
import { ConfigHistory } from './history/config-history.ts';
import { History } from './history/history.ts';
import { readHistory } from './history/read.ts';
import { WorkerHistory } from './history/worker-history.ts';
import { RecentIncidents } from './incidents.ts';
import { KnownConfigs } from './known-configs.ts';
import { KnownWorkers } from './known-workers.ts';
import { MIGRATIONS } from './migrations.ts';
import {
  forgetModels,
  forgetModelsOf,
  knownModels,
  longestUnseen,
  newestModels,
  saveModel,
} from './model-table.ts';
import { Projection } from './projection.ts';
import { findResponse, forgetResponses, saveResponse } from './response-table.ts';
import type {
  ConfigChoice,
  ConfigStart,
  FleetEvent,
  HistoryRange,
  KnownModel,
  KnownWorker,
  QueueShare,
  RecordAnswer,
  RefusedWorker,
  ResponseOwner,
  SessionShare,
  Subject,
  TelemetryBatch,
  TelemetryKind,
  TelemetryPage,
  TelemetryQuery,
} from './rpc.ts';
import { SchedulingFacts } from './scheduling-facts.ts';
import { findSignIn, removeSignIn, type SignInRow, saveSignIn } from './sign-in-table.ts';
import { Telemetry } from './telemetry.ts';
import { configStart } from './view/config-start.ts';
import { intervalMs } from './view/worker-state.ts';

/** What names of launched machines are made of. */
const LETTERS_AND_DIGITS = 'abcdefghijklmnopqrstuvwxyz0123456789';

/** Between two sweeps, ms: what falls due in between goes with the next one. */
const SWEEP_PAUSE_MS = 1000;

/** What a heartbeat says that is worth a commit of its own. */
const TOLD_AT_ONCE = ['status', 'phase', 'error_message'] as const;

/** The ports of the registry's rules. */
export interface FleetPorts {
  queueId: string;
  sql: Sql;
  alarm: Alarm;
  /** Epoch ms */
  now(): number;
}

export type FleetSettings = Pick<QueueSettingValues, 'retention_seconds' | 'model_retention_seconds'>;

/**
 * What is known of a queue's workers and models beyond their connections: heartbeats, last words, names, log lines. It
 * decides about no job, and all of it is bounded: junk from one worker pushes out the longest unseen.
 */
export class FleetRegistry {
  readonly #ports: FleetPorts;
  readonly #settings: FleetSettings;
  readonly #workers: KnownWorkers;
  readonly #configs: KnownConfigs;
  readonly #history: History;
  readonly #workerHistory: WorkerHistory;
  readonly #incidents = new RecentIncidents();
  readonly #telemetry: Telemetry;
  /** What everybody is shown of all this. */
  readonly view: Projection;
  /** Of the machines that run the workers. */
  readonly scheduler: Scheduler;
  readonly #scheduling = new SchedulingFacts();
  /** Whether the queue has told all of its numbers since this object started. */
  #hasShare = false;

  constructor(ports: FleetPorts, settings: FleetSettings) {
    migrate(ports.sql, MIGRATIONS);
    this.#ports = ports;
    this.#settings = settings;
    this.scheduler = new Scheduler({
      ...ports,
      randomText: (length) => randomText(length, LETTERS_AND_DIGITS),
      facts: () => this.facts(),
    });
    this.#telemetry = new Telemetry(ports);
    this.#workers = new KnownWorkers(ports.sql);
    this.#history = new History(ports.sql, ports.now);
    this.#workerHistory = new WorkerHistory(this.#history);
    this.#configs = new KnownConfigs(ports.sql, new ConfigHistory(this.#history));
    this.view = new Projection(ports.queueId, {
      workers: () => this.#workers.all(),
      configs: (named, now) => this.#configs.facts(named, now),
      incidents: () => this.#incidents.all(),
      tokensHistory: (workerId, now) => this.#workerHistory.tokens(workerId, now),
      launches: () => this.scheduler.launches(),
      scaling: () => this.scheduler.scaling(),
    });
  }

  /** @returns whether it says something new, beside its measurements */
  heartbeat(beat: Heartbeat): boolean {
    const at = this.#ports.now();
    const { before, worker } = this.#workers.beat(beat, at);
    const { worker_id, config_id } = worker;
    this.#workerHistory.beat(worker_id, beat, at, before?.heartbeat_at ?? null, intervalMs(beat));
    if (config_id !== null) this.#configs.learn(config_id, worker_id, beat, at);
    if (this.#workers.size > 2 * limits.KNOWN_WORKERS) this.save();
    return !before?.heartbeat || TOLD_AT_ONCE.some((field) => before.heartbeat?.[field] !== beat[field]);
  }

  /** @returns whether it must be saved at once */
  keepTelemetry(workerId: string, { kind, items }: TelemetryBatch): boolean {
    this.#telemetry.add({ worker_id: workerId, kind }, items);
    return this.#telemetry.isFull;
  }

  telemetry(workerId: string, kind: TelemetryKind, query: TelemetryQuery): TelemetryPage {
    return this.#telemetry.read({ worker_id: workerId, kind }, query);
  }

  /** Stores the newest heartbeats, history, log lines and samples, all in one commit. */
  save(): void {
    this.#workers.save();
    this.#configs.save();
    this.#history.save();
    this.#telemetry.save();
    this.#bound();
  }

  record(events: readonly FleetEvent[], share?: QueueShare): RecordAnswer {
    for (const event of events) this.#record(event);
    if (share) {
      this.#workers.share(share);
      this.#configs.share(share, this.#workers.all(), this.#ports.now());
      this.#hasShare ||= share.full;
    }
    if (events.length > 0) this.#bound();
    return { wants: this.#hasShare ? null : 'full', starts: this.starts() };
  }

  /** Whether the queue has told all of its numbers since this object started. */
  get hasShare(): boolean {
    return this.#hasShare;
  }

  sessions(): SessionShare[] {
    return [...this.#workers.all()].flatMap(({ session }) => session ?? []);
  }

  workers(): KnownWorker[] {
    return [...this.#workers.all()].sort((a, b) => (a.worker_id < b.worker_id ? -1 : 1));
  }

  history(of: Subject, range: HistoryRange): FleetHistory {
    return readHistory(this.#history, of, range, this.#ports.now());
  }

  refused(refused: RefusedWorker): void {
    this.#incidents.refused(refused, this.#ports.now());
  }

  keepResponse(id: string, worker_id: string, tenant: string | null): void {
    const { sql, now } = this.#ports;
    saveResponse(sql, { id, worker_id, tenant }, now());
    forgetResponses(sql, limits.KNOWN_RESPONSES);
  }

  /** @param viewer null sees all */
  ownerOfResponse(id: string, viewer: string | null): ResponseOwner {
    const response = findResponse(this.#ports.sql, id);
    if (response === null) return null;
    return viewer === null || viewer === response.tenant ? { worker_id: response.worker_id } : 'foreign';
  }

  signIn(signIn: SignInRow): void {
    saveSignIn(this.#ports.sql, signIn, this.#ports.now(), limits.SIGN_INS_OF_TOKEN);
  }

  signedIn(idSha256: string): SignInRow | null {
    return findSignIn(this.#ports.sql, idSha256, this.#ports.now());
  }

  signOut(idSha256: string): void {
    removeSignIn(this.#ports.sql, idSha256);
  }

  starts(): ConfigStart[] {
    const { spec } = this.scheduler.spec() ?? {};
    if (!spec) return [];
    const facts = {
      launches: this.scheduler.launches(),
      sessions: this.sessions(),
      known: newestModels(this.#ports.sql),
      scaling: this.scheduler.scaling(),
    };
    return Object.entries(spec.configs).map(([id, config]) =>
      configStart(id, config, facts, this.#ports.now()),
    );
  }

  /** What the scheduler is told. */
  facts(): FleetFacts {
    return this.#scheduling.of(this.#workers.all(), this.#configs.shares(), this.#hasShare);
  }

  /** The config that each model is for, in order; null: that is not known. */
  configsOf(models: readonly (string | null)[]): (string | null)[] {
    return this.#choices(models).map((choice) => (choice.kind === 'config' ? choice.config_id : null));
  }

  models(): KnownModel[] {
    return knownModels(this.#ports.sql);
  }

  chooseConfigs(models: readonly (string | null)[]): ConfigChoice[] {
    const choices = this.#choices(models);
    for (const [index, choice] of choices.entries()) {
      const model = models[index];
      if (choice.kind === 'unknown' && model) {
        this.#incidents.unknownModel(shortName(model), choice.models, this.#ports.now());
      }
    }
    return choices;
  }

  #choices(models: readonly (string | null)[]): ConfigChoice[] {
    const known = newestModels(this.#ports.sql);
    const starts = this.starts();
    return models.map((model) => chooseConfig(known, starts, model));
  }

  onAlarm(): void {
    this.#ports.alarm.clear();
    this.save();
    this.#bound();
  }

  #record(event: FleetEvent): void {
    const { sql } = this.#ports;
    const { worker_id, at } = event;
    this.#workers.record(event);
    const names = event.models.length > 0 ? event.models : [event.config_id];
    const cards = (event.kind === 'registered' && event.instance?.model_cards) || [];
    for (const [position, id] of names.entries()) {
      const card = cards.find((one) => one.id === id) ?? null;
      saveModel(sql, { id, position, card }, event, at);
    }
    forgetModelsOf(sql, worker_id, limits.KNOWN_MODELS_PER_WORKER);
  }

  /** Forgets what is too old or too much, and sets the alarm for what will be. */
  #bound(): void {
    const { sql, alarm, now } = this.#ports;
    const workersMs = this.#settings.retention_seconds * 1000;
    const modelsMs = this.#settings.model_retention_seconds * 1000;
    const forgotten = this.#workers.bound(now() - workersMs, limits.KNOWN_WORKERS);
    for (const id of forgotten) this.#workerHistory.forget(id);
    this.#configs.bound(now() - workersMs);
    forgetModels(sql, now() - modelsMs, limits.KNOWN_MODELS);
    const oldest: [number | null, number][] = [
      [this.#workers.longestUnheard(), workersMs],
      [longestUnseen(sql), modelsMs],
      [this.#telemetry.bound(now() - workersMs), workersMs],
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
