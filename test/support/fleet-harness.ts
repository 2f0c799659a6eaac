import { DatabaseSync } from 'node:sqlite';
import type { Row, SqlValue } from '../../src/durable/ports.ts';
import { Alerts } from '../../src/features/alerts/object/alerts.ts';
import { Mutes } from '../../src/features/alerts/object/mutes.ts';
import type { Alerting } from '../../src/fleet/alerting.ts';
import { Fleet, type FleetSettings } from '../../src/fleet/fleet.ts';
import type {
  FleetEvent,
  HistoryRange,
  Machine,
  PoolChoice,
  PoolStart,
  QueueShare,
  Subject,
} from '../../src/fleet/rpc.ts';
import type { FleetHistory, FleetView, Heartbeat } from '../../src/protocol/index.ts';
import { NO_ALERTING } from './no-alerting.ts';

/** A change of a problem that lasts less than this, ms, is not reported. */
const SETTLED_MS = 15_000;

/** The rules of a fleet over real SQLite in memory, with a clock that the test moves by hand. */
export class FleetHarness {
  nowMs = Date.UTC(2026, 0, 1);
  alarmAt: number | null = null;
  /** Rows written so far. */
  writes = 0;
  readonly database = new DatabaseSync(':memory:');
  readonly sql = {
    exec: (query: string, ...bindings: SqlValue[]): Row[] => {
      if (/^\s*(insert|update|delete)/i.test(query)) this.writes += 1;
      return this.database.prepare(query).all(...bindings) as unknown as Row[];
    },
  };
  rules: Fleet;
  alerts!: Alerts;
  mutes!: Mutes;
  /** The names of the receivers of alerts. */
  receivers = ['QUEUE_ALERT_URL', 'pager', 'manager'];
  /** In place of what the scheduler makes of its spec. */
  starts: PoolStart[] | null = null;
  readonly #settings: FleetSettings;
  readonly #now: () => number;

  /** @param now another clock than its own, epoch ms */
  constructor(settings: Partial<FleetSettings> = {}, now?: () => number) {
    this.#settings = { retention_seconds: 604_800, ...settings };
    this.#now = now ?? (() => this.nowMs);
    this.rules = this.#open();
  }

  heartbeat(workerId: string, more: Partial<Heartbeat> = {}): void {
    this.rules.heartbeat({ instance_id: workerId, status: 'running', ...more });
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

  /** Reports the queue's numbers. */
  share(share: Partial<QueueShare>): void {
    const whole = { at: this.#now(), full: false, sessions: [], gone: [], pools: [], ...share };
    this.rules.record([], whole);
  }

  workers(): Machine[] {
    return this.rules.machines.list();
  }

  history(of: Subject, range: HistoryRange, end: number | null = null): FleetHistory {
    return this.rules.readHistory(of, range, end);
  }

  /** Returns the view that everybody is shown now. */
  view(): FleetView {
    this.rules.view.refresh(this.#now());
    return this.rules.view.view();
  }

  choose(model: string | null): PoolChoice {
    const [choice] = this.rules.chooseForCallers([model]);
    return choice as PoolChoice;
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
    this.rules.onAlarm();
  }

  /** The process ends and starts again on its disk. */
  restart(): void {
    this.rules = this.#open();
  }

  #alerting(): Alerting {
    this.mutes = new Mutes(this.sql);
    const alerts = new Alerts(this.sql, this.mutes, this.receivers, SETTLED_MS);
    this.alerts = alerts;
    return {
      ...NO_ALERTING,
      look: (problems, at) => alerts.look(problems, at),
      acknowledge: (id, by, at) => alerts.acknowledge(id, by, at),
    };
  }

  #record(event: FleetEvent): void {
    this.rules.record([event]);
  }

  #open(): Fleet {
    const alarm = {
      get: () => this.alarmAt,
      set: (at: number) => {
        this.alarmAt = at;
      },
      clear: () => {
        this.alarmAt = null;
      },
    };
    const rules = new Fleet(
      {
        queueId: 'q',
        sql: this.sql,
        alarm,
        now: this.#now,
        randomName: (length) => 'a'.repeat(length),
        alerting: () => this.#alerting(),
      },
      this.#settings,
    );
    const starts = rules.starts.bind(rules);
    rules.starts = () => this.starts ?? starts();
    return rules;
  }
}
