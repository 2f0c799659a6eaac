import { DurableObject } from 'cloudflare:workers';
import { StoredAlarm, sqlOf } from '../durable/storage.ts';
import type { Heartbeat } from '../protocol/index.ts';
import {
  completeQueueSettings,
  type QueueSettingBindings,
  settingsFromBindings,
} from '../settings/queue-settings.ts';
import { FleetRegistry } from './registry.ts';
import type {
  ConfigChoice,
  FleetEvent,
  FleetRpc,
  KnownModel,
  KnownWorker,
  QueueShare,
  RecordAnswer,
  TelemetryBatch,
  TelemetryKind,
  TelemetryPage,
  TelemetryQuery,
} from './rpc.ts';

/** Heartbeats, log lines and samples wait this long for others to be stored with, ms. */
const SAVE_AFTER_MS = 1000;

/**
 * The Durable Object around the registry, one for each queue id: its storage, its clock and the timer after
 * which what workers sent is stored. It has a thread and a database of its own, so that no job waits for it.
 */
export class FleetObject extends DurableObject<QueueSettingBindings> implements FleetRpc {
  #registry!: FleetRegistry;
  #alarm!: StoredAlarm;
  #saving: ReturnType<typeof setTimeout> | null = null;

  constructor(ctx: DurableObjectState, env: QueueSettingBindings) {
    super(ctx, env);
    ctx.blockConcurrencyWhile(async () => {
      this.#alarm = await StoredAlarm.read(ctx.storage);
      this.#registry = new FleetRegistry(
        { sql: sqlOf(ctx.storage), alarm: this.#alarm, now: () => Date.now() },
        completeQueueSettings(settingsFromBindings(env)),
      );
    });
  }

  async heartbeat(beat: Heartbeat): Promise<void> {
    this.#registry.heartbeat(beat);
    this.#saveSoon();
  }

  async keepTelemetry(workerId: string, batch: TelemetryBatch): Promise<void> {
    if (this.#registry.keepTelemetry(workerId, batch)) this.#commit(() => this.#registry.save());
    else this.#saveSoon();
  }

  async telemetry(workerId: string, kind: TelemetryKind, query: TelemetryQuery): Promise<TelemetryPage> {
    return this.#registry.telemetry(workerId, kind, query);
  }

  async record(events: FleetEvent[], share?: QueueShare): Promise<RecordAnswer> {
    return this.#commit(() => this.#registry.record(events, share));
  }

  async workers(): Promise<KnownWorker[]> {
    return this.#registry.workers();
  }

  async keepResponse(id: string, workerId: string, tenant: string | null): Promise<void> {
    this.#commit(() => this.#registry.keepResponse(id, workerId, tenant));
  }

  async ownerOfResponse(id: string, viewer: string | null): Promise<string | null> {
    return this.#registry.ownerOfResponse(id, viewer);
  }

  async models(): Promise<KnownModel[]> {
    return this.#registry.models();
  }

  async chooseConfigs(models: (string | null)[]): Promise<ConfigChoice[]> {
    return this.#registry.chooseConfigs(models);
  }

  override async alarm(): Promise<void> {
    this.#alarm.fired();
    this.#commit(() => this.#registry.onAlarm());
  }

  #saveSoon(): void {
    this.#saving ??= setTimeout(() => {
      this.#saving = null;
      this.#commit(() => this.#registry.save());
    }, SAVE_AFTER_MS);
  }

  #commit<T>(work: () => T): T {
    return this.ctx.storage.transactionSync(work);
  }
}
