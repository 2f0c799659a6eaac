import { DatabaseSync } from 'node:sqlite';
import type { Row, SqlValue } from '../../src/durable/ports.ts';
import { FleetRegistry, type FleetSettings } from '../../src/fleet/registry.ts';
import type { ConfigChoice, ConfigStart, FleetEvent, QueueShare } from '../../src/fleet/rpc.ts';
import type { FleetView, Heartbeat } from '../../src/protocol/index.ts';

/** The real registry over real SQLite in memory, with a clock that the test moves by hand. */
export class FleetHarness {
  nowMs = Date.UTC(2026, 0, 1);
  alarmAt: number | null = null;
  /** Rows written so far. */
  writes = 0;
  readonly database = new DatabaseSync(':memory:');
  registry: FleetRegistry;
  /** In place of what the scheduler makes of its spec. */
  starts: ConfigStart[] | null = null;
  readonly #settings: FleetSettings;
  readonly #now: () => number;

  /** @param now another clock than its own, epoch ms */
  constructor(settings: Partial<FleetSettings> = {}, now?: () => number) {
    this.#settings = { retention_seconds: 604_800, model_retention_seconds: 86_400, ...settings };
    this.#now = now ?? (() => this.nowMs);
    this.registry = this.#open();
  }

  heartbeat(workerId: string, more: Partial<Heartbeat> = {}): void {
    this.registry.heartbeat({ instance_id: workerId, status: 'running', ...more });
  }

  registered(workerId: string, models: string[] = ['tiny'], configId = 'cfg'): void {
    this.#record({
      kind: 'registered',
      worker_id: workerId,
      config_id: configId,
      models,
      at: this.#now(),
      instance: { id: workerId, models },
    });
  }

  disconnected(workerId: string, models: string[] = ['tiny'], configId = 'cfg'): void {
    const worker = { worker_id: workerId, config_id: configId, models, at: this.#now() };
    this.#record({ kind: 'disconnected', ...worker, reason: 'the connection closed' });
  }

  /** What the queue tells of its numbers. */
  share(share: Partial<QueueShare>): void {
    const whole = { at: this.#now(), full: false, sessions: [], gone: [], configs: [], ...share };
    this.registry.record([], whole);
  }

  /** What everybody is shown now. */
  view(): FleetView {
    this.registry.view.refresh(this.#now());
    return this.registry.view.view();
  }

  choose(model: string | null): ConfigChoice {
    const [choice] = this.registry.chooseConfigs([model]);
    return choice as ConfigChoice;
  }

  /** Moves its own clock, running every alarm that falls due on the way. */
  advance(seconds: number): void {
    const until = this.nowMs + seconds * 1000;
    while (this.alarmAt !== null && this.alarmAt <= until) {
      this.nowMs = Math.max(this.nowMs, this.alarmAt);
      this.alarmIfDue();
    }
    this.nowMs = until;
  }

  alarmIfDue(): void {
    if (this.alarmAt === null || this.alarmAt > this.#now()) return;
    this.alarmAt = null;
    this.registry.onAlarm();
  }

  /** The process ends and starts again on its disk. */
  restart(): void {
    this.registry = this.#open();
  }

  #record(event: FleetEvent): void {
    this.registry.record([event]);
  }

  #open(): FleetRegistry {
    const sql = {
      exec: (query: string, ...bindings: SqlValue[]): Row[] => {
        if (/^\s*(insert|update|delete)/i.test(query)) this.writes += 1;
        return this.database.prepare(query).all(...bindings) as unknown as Row[];
      },
    };
    const alarm = {
      get: () => this.alarmAt,
      set: (at: number) => {
        this.alarmAt = at;
      },
      clear: () => {
        this.alarmAt = null;
      },
    };
    const registry = new FleetRegistry({ queueId: 'q', sql, alarm, now: this.#now }, this.#settings);
    const starts = registry.starts.bind(registry);
    registry.starts = () => this.starts ?? starts();
    return registry;
  }
}
