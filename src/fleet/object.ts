import { DurableObject } from 'cloudflare:workers';
import { StoredAlarm, sqlOf } from '../durable/storage.ts';
import type { Heartbeat } from '../protocol/index.ts';
import {
  completeQueueSettings,
  type QueueSettingBindings,
  settingsFromBindings,
} from '../settings/queue-settings.ts';
import { FleetRegistry } from './registry.ts';
import type { ConfigChoice, FleetEvent, FleetRpc, KnownModel, KnownWorker } from './rpc.ts';

/** Heartbeats wait this long for others to be stored with, ms. */
const SAVE_AFTER_MS = 1000;

/**
 * The Durable Object around the registry, one for each queue id: its storage, its clock and the timer after
 * which heartbeats are stored. It has a thread and a database of its own, so that no job waits for it.
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
    this.#saving ??= setTimeout(() => {
      this.#saving = null;
      this.#commit(() => this.#registry.save());
    }, SAVE_AFTER_MS);
  }

  async record(events: FleetEvent[]): Promise<void> {
    this.#commit(() => this.#registry.record(events));
  }

  async workers(): Promise<KnownWorker[]> {
    return this.#registry.workers();
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

  #commit(work: () => void): void {
    this.ctx.storage.transactionSync(work);
  }
}
