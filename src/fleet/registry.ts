import { migrate } from '../durable/migrate.ts';
import type { Alarm, Sql } from '../durable/ports.ts';
import { type Heartbeat, type Instance, limits } from '../protocol/index.ts';
import type { QueueSettingValues } from '../settings/queue-settings.ts';
import { chooseConfig } from './choose-config.ts';
import { MIGRATIONS } from './migrations.ts';
import {
  forgetModels,
  forgetModelsOf,
  knownModels,
  longestUnseen,
  newestModels,
  saveModel,
} from './model-table.ts';
import { findResponse, forgetResponses, saveResponse } from './response-table.ts';
import type {
  ConfigChoice,
  FleetEvent,
  KnownModel,
  KnownWorker,
  QueueShare,
  RecordAnswer,
  TelemetryBatch,
  TelemetryKind,
  TelemetryPage,
  TelemetryQuery,
} from './rpc.ts';
import { Telemetry } from './telemetry.ts';
import {
  forgetWorkers,
  longestUnheard,
  saveDisconnect,
  saveHeartbeat,
  saveInstance,
  storedWorkers,
  touchWorker,
} from './worker-table.ts';

/** Between two sweeps, ms: what falls due in between goes with the next one. */
const SWEEP_PAUSE_MS = 1000;

/** What is kept of a heartbeat's error: with it every worker that is known fits into one answer. */
const LAST_WORDS_CHARACTERS = 4096;

/** The ports of the registry's rules. */
export interface FleetPorts {
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
  /** Newer than what is stored, by worker id: a worker that sends many costs one write for all of them. */
  readonly #unsaved = new Map<string, { beat: Heartbeat; at: number }>();
  readonly #telemetry: Telemetry;
  /** Whether the queue has told all of its numbers since this object started. */
  #hasShare = false;

  constructor(ports: FleetPorts, settings: FleetSettings) {
    migrate(ports.sql, MIGRATIONS);
    this.#ports = ports;
    this.#settings = settings;
    this.#telemetry = new Telemetry(ports);
  }

  heartbeat(beat: Heartbeat): void {
    const error_message = beat.error_message?.slice(0, LAST_WORDS_CHARACTERS);
    const kept = error_message === undefined ? beat : { ...beat, error_message };
    this.#unsaved.set(beat.worker_id ?? beat.instance_id, { beat: kept, at: this.#ports.now() });
    if (this.#unsaved.size >= limits.KNOWN_WORKERS) this.save();
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
    for (const [workerId, { beat, at }] of this.#unsaved) saveHeartbeat(this.#ports.sql, workerId, beat, at);
    this.#unsaved.clear();
    this.#telemetry.save();
    this.#bound();
  }

  record(events: readonly FleetEvent[], share?: QueueShare): RecordAnswer {
    for (const event of events) this.#record(event);
    if (share?.full) this.#hasShare = true;
    this.#bound();
    return { wants: this.#hasShare ? null : 'full' };
  }

  workers(): KnownWorker[] {
    const workers = new Map(storedWorkers(this.#ports.sql).map((worker) => [worker.worker_id, worker]));
    for (const [worker_id, { beat, at }] of this.#unsaved) {
      const first = { worker_id, config_id: beat.config_id ?? null, instance: null, disconnected: null };
      workers.set(worker_id, { ...(workers.get(worker_id) ?? first), heartbeat: beat, heartbeat_at: at });
    }
    return [...workers.values()].sort((a, b) => (a.worker_id < b.worker_id ? -1 : 1));
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

  models(): KnownModel[] {
    return knownModels(this.#ports.sql);
  }

  chooseConfigs(models: readonly (string | null)[]): ConfigChoice[] {
    const known = newestModels(this.#ports.sql);
    return models.map((model) => chooseConfig(known, model));
  }

  onAlarm(): void {
    this.#ports.alarm.clear();
    this.save();
    this.#bound();
  }

  #record(event: FleetEvent): void {
    const { sql } = this.#ports;
    const { worker_id, at } = event;
    if (event.kind === 'registered' || event.kind === 'handed_over') {
      const { model_cards: _cards, ...instance } = event.instance ?? {};
      saveInstance(sql, event, event.instance && (instance as Instance), at);
    } else touchWorker(sql, worker_id, at);
    if (event.kind === 'disconnected') saveDisconnect(sql, worker_id, event.reason, at);
    if (event.kind === 'handed_over' && event.heartbeat) {
      saveHeartbeat(sql, worker_id, event.heartbeat, event.heartbeat_at ?? at);
    }
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
    forgetWorkers(sql, now() - workersMs, limits.KNOWN_WORKERS);
    forgetModels(sql, now() - modelsMs, limits.KNOWN_MODELS);
    const oldest: [number | null, number][] = [
      [longestUnheard(sql), workersMs],
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
