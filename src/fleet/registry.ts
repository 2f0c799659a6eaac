import { migrate } from '../durable/migrate.ts';
import type { Alarm, Sql } from '../durable/ports.ts';
import { type Heartbeat, limits, shortName } from '../protocol/index.ts';
import type { QueueSettingValues } from '../settings/queue-settings.ts';
import { chooseConfig } from './choose-config.ts';
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
  FleetEvent,
  KnownModel,
  KnownWorker,
  QueueShare,
  RecordAnswer,
  RefusedWorker,
  TelemetryBatch,
  TelemetryKind,
  TelemetryPage,
  TelemetryQuery,
} from './rpc.ts';
import { findSignIn, removeSignIn, type SignInRow, saveSignIn } from './sign-in-table.ts';
import { Telemetry } from './telemetry.ts';

/** Between two sweeps, ms: what falls due in between goes with the next one. */
const SWEEP_PAUSE_MS = 1000;

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
  readonly #configs = new KnownConfigs();
  readonly #incidents = new RecentIncidents();
  readonly #telemetry: Telemetry;
  /** What everybody is shown of all this. */
  readonly view: Projection;
  /** Whether the queue has told all of its numbers since this object started. */
  #hasShare = false;

  constructor(ports: FleetPorts, settings: FleetSettings) {
    migrate(ports.sql, MIGRATIONS);
    this.#ports = ports;
    this.#settings = settings;
    this.#telemetry = new Telemetry(ports);
    this.#workers = new KnownWorkers(ports.sql);
    this.view = new Projection(ports.queueId, {
      workers: () => this.#workers.all(),
      configs: (named) => this.#configs.facts(named),
      incidents: () => this.#incidents.all(),
      tokensHistory: () => ({ values: [], until: Number.POSITIVE_INFINITY }),
    });
  }

  heartbeat(beat: Heartbeat): void {
    this.#workers.beat(beat, this.#ports.now());
    if (this.#workers.size > 2 * limits.KNOWN_WORKERS) this.save();
  }

  /** @returns whether it must be saved at once */
  keepTelemetry(workerId: string, { kind, items }: TelemetryBatch): boolean {
    this.#telemetry.add({ worker_id: workerId, kind }, items);
    return this.#telemetry.isFull;
  }

  telemetry(workerId: string, kind: TelemetryKind, query: TelemetryQuery): TelemetryPage {
    return this.#telemetry.read({ worker_id: workerId, kind }, query);
  }

  /** Stores the newest heartbeats, log lines and samples, all in one commit. */
  save(): void {
    this.#workers.save();
    this.#telemetry.save();
    this.#bound();
  }

  record(events: readonly FleetEvent[], share?: QueueShare): RecordAnswer {
    for (const event of events) this.#record(event);
    if (share) {
      this.#workers.share(share);
      this.#configs.share(share);
      this.#hasShare ||= share.full;
    }
    if (events.length > 0) this.#bound();
    return { wants: this.#hasShare ? null : 'full' };
  }

  /** Whether the queue has told all of its numbers since this object started. */
  get hasShare(): boolean {
    return this.#hasShare;
  }

  workers(): KnownWorker[] {
    return [...this.#workers.all()].sort((a, b) => (a.worker_id < b.worker_id ? -1 : 1));
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
  ownerOfResponse(id: string, viewer: string | null): string | null {
    const response = findResponse(this.#ports.sql, id);
    return response && (viewer === null || viewer === response.tenant) ? response.worker_id : null;
  }

  signIn(signIn: SignInRow): void {
    saveSignIn(this.#ports.sql, signIn, this.#ports.now(), limits.SIGN_INS);
  }

  signedIn(idSha256: string): SignInRow | null {
    return findSignIn(this.#ports.sql, idSha256, this.#ports.now());
  }

  signOut(idSha256: string): void {
    removeSignIn(this.#ports.sql, idSha256);
  }

  models(): KnownModel[] {
    return knownModels(this.#ports.sql);
  }

  chooseConfigs(models: readonly (string | null)[]): ConfigChoice[] {
    const known = newestModels(this.#ports.sql);
    return models.map((model) => {
      const choice = chooseConfig(known, model);
      if (choice.kind === 'unknown' && model) {
        this.#incidents.unknownModel(shortName(model), choice.models, this.#ports.now());
      }
      return choice;
    });
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
    this.#workers.bound(now() - workersMs, limits.KNOWN_WORKERS);
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
