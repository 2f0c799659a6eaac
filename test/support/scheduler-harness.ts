import { DatabaseSync } from 'node:sqlite';
import { createTables, type Row, type SqlValue } from '../../src/durable/ports.ts';
import { Machines } from '../../src/fleet/machines.ts';
import { FLEET_TABLES } from '../../src/fleet/tables.ts';
import type { Heartbeat } from '../../src/protocol/index.ts';
import type { LaunchRecord as Launch } from '../../src/scheduler/launch.ts';
import type { SessionShare } from '../../src/scheduler/machines.ts';
import type { LauncherReport, ListedMachine, OrderResult } from '../../src/scheduler/rpc.ts';
import type { Answers, QueueFacts } from '../../src/scheduler/rule-types.ts';
import { Scheduler } from '../../src/scheduler/scheduler.ts';
import { FleetSpec } from '../../src/scheduler/spec.ts';

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz';

/** The real scheduler over real SQLite in memory; clock, workers and launchers are the test's. */
export class SchedulerHarness {
  now = Date.UTC(2026, 0, 5, 12);
  readonly database = new DatabaseSync(':memory:');
  waiting = 0;
  /** What the queue answers of workers that are cordoned. */
  running: Record<string, number> = {};
  /** What workers have done lately, by their ids. */
  done = new Map<string, { requests: number; errors: number }>();
  scheduler: Scheduler;
  #machines!: Machines;
  #made = 0;

  constructor() {
    createTables(this.#sql, FLEET_TABLES);
    this.scheduler = this.#open();
  }

  /** The process ends and starts again on its disk; the queue reports its connections again. */
  restart(): void {
    const { sessions } = this;
    this.scheduler = this.#open();
    this.sessions = sessions;
  }

  /** The connections that the queue has reported. */
  get sessions(): SessionShare[] {
    return this.#machines.sessions();
  }

  set sessions(sessions: SessionShare[]) {
    this.#machines.share({ at: this.now, full: true, sessions, gone: [] });
  }

  apply(pool: object = {}, driver = 'runpod') {
    return this.scheduler.specs.apply(
      FleetSpec.parse({
        providers: { here: { driver } },
        pools: { chat: { model: 'tiny', slots: 4, max: 3, machines: [{ provider: 'here' }], ...pool } },
      }),
      false,
    );
  }

  /** The queue answers, and the scheduler reconciles. @param answers instead of the queue's own */
  reconcile(seconds = 1, answers?: Answers): void {
    this.now += seconds * 1000;
    const cordoned = Object.fromEntries(this.scheduler.cordon().map((id) => [id, this.running[id] ?? 0]));
    this.scheduler.reconcile(answers ?? { cordoned, backlog: new Map() });
  }

  sync(more: Partial<LauncherReport> = {}, launcher = 'l-1') {
    const report = {
      drivers: ['process', 'runpod'],
      host: 'm-1',
      lists: [],
      results: [],
      prices: [],
      ...more,
    };
    return this.scheduler.sync(launcher, report);
  }

  /** A launcher has listed the provider just now. */
  list(machines: Partial<ListedMachine>[] | null, age_ms = 0, more: Partial<LauncherReport> = {}) {
    const whole = machines?.map(
      (given): ListedMachine => ({
        external_id: 'x-1',
        name: '',
        state: 'running',
        created_at: null,
        started_at: null,
        ended_at: null,
        price_per_hour: null,
        exit_code: null,
        detail: null,
        ...given,
      }),
    );
    const error = whole ? null : 'it answers 503';
    return this.sync({ lists: [{ provider: 'here', age_ms, machines: whole ?? null, error }], ...more });
  }

  result(launch_id: string, order: number, outcome: OrderResult['outcome']) {
    return this.sync({ results: [{ launch_id, order, outcome }] });
  }

  session(worker_id: string, more: Partial<SessionShare> = {}): void {
    const others = this.sessions.filter((one) => one.worker_id !== worker_id);
    const session: SessionShare = {
      worker_id,
      config_id: 'chat',
      state: 'ready',
      capacity: 4,
      running: 0,
      connected_at: this.now,
      protocol: 'extended',
      models: [],
      adapters: null,
      ...more,
    };
    this.sessions = [...others, session];
  }

  heartbeat(instance_id: string, more: Pick<Heartbeat, 'status' | 'preempted'>): void {
    this.#machines.heartbeat({ instance_id, ...more }, this.now);
  }

  /** A row as it is on disk. */
  row(id: string): Launch {
    const [row] = this.#sql.exec(`SELECT launch FROM launches WHERE id = ?`, id);
    return JSON.parse(String(row?.launch)) as Launch;
  }

  rows(): Launch[] {
    return this.#sql
      .exec(`SELECT launch FROM launches`)
      .map((row) => JSON.parse(String(row.launch)) as Launch);
  }

  /** Returns one launch that was requested and accepted. */
  accepted(): Launch {
    const launch = this.requested();
    this.result(launch.id, launch.order, { kind: 'launched', external_id: 'x-1', price_per_hour: 2 });
    return this.row(launch.id);
  }

  /** Returns one launch that a launcher has the order for. */
  requested(): Launch {
    this.list([]);
    this.waiting = 1;
    this.reconcile();
    this.waiting = 0;
    const [order] = this.sync().orders;
    if (!order) throw new Error(`nothing was ordered: ${JSON.stringify(this.scheduler.scaling())}`);
    return this.row(order.launch_id);
  }

  ready(): Launch {
    const launch = this.accepted();
    this.session(launch.name);
    this.reconcile();
    return this.row(launch.id);
  }

  #facts(): QueueFacts {
    const pool = { waiting: this.waiting, running: 0, waiting_in_background: 0 };
    const totals = { submitted: this.waiting, submitted_in_background: 0, ended: 0 };
    return {
      isKnown: true,
      pools: new Map([['chat', { ...pool, ...totals }]]),
    };
  }

  readonly #sql = {
    exec: (query: string, ...bindings: SqlValue[]): Row[] =>
      this.database.prepare(query).all(...bindings) as unknown as Row[],
  };

  #open(): Scheduler {
    this.#machines = new Machines(this.#sql);
    return new Scheduler({
      sql: this.#sql,
      now: () => this.now,
      randomName: (length) => {
        this.#made += 1;
        const text = ALPHABET[this.#made % 26]! + String(this.#made).padStart(length - 1, '0');
        return text.slice(0, length);
      },
      machines: this.#machines,
      queue: () => this.#facts(),
      figures: (ids) => {
        const own = ids.flatMap((id) => this.done.get(id) ?? []);
        return {
          requests: own.reduce((sum, { requests }) => sum + requests, 0),
          errors: own.reduce((sum, { errors }) => sum + errors, 0),
          first_token_p50_ms: null,
          first_token_p95_ms: null,
          tokens_per_second: null,
        };
      },
    });
  }
}
