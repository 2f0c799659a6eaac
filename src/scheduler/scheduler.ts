import type { Sql } from '../durable/ports.ts';
import type { LaunchRow, PoolScaling, ScalingControl, ScalingSummary } from '../protocol/index.ts';
import { act, clear, followClock, join } from './act.ts';
import type { Core } from './core.ts';
import { decide, EMPTY_STATE } from './decide.ts';
import { isFinal, prefixOf } from './launch.ts';
import { Launches, spentByDay } from './launches.ts';
import { type CanaryShare, cordonOf, type DisplacedJobs, type MachineMap } from './machines.ts';
import { observe, outdatedIn } from './observe.ts';
import { control, Specs } from './operate.ts';
import type { ProviderSpec } from './provider-spec.ts';
import { hostOf, LIST_EVERY_MS, Providers } from './providers.ts';
import { roll } from './roll.ts';
import type {
  ControlAnswer,
  LaunchedWorker,
  LauncherAnswer,
  LauncherReport,
  PoolAction,
  RollAnswer,
  RollRequest,
  SpentOnDay,
} from './rpc.ts';
import type { Answers, Decided, QueueFacts, RuleState, WorkersFigures } from './rule-types.ts';
import type { FleetSpec } from './spec.ts';
import { bookDisplaced } from './spot-book.ts';
import { Controls, readState, Secrets, writeState } from './state.ts';
import { type DueOrder, takeList, takeOrders, takeResult } from './sync.ts';
import { adoptVersions, sharesIn, Versions } from './versions.ts';
import { type LastDecision, lastDecision, launchRows, pricesOf, scalingOf } from './view.ts';

/** The interval between reconciliations, ms; BUSY_RECONCILE_MS applies while a launch is under way. */
const RECONCILE_MS = 5000;
const BUSY_RECONCILE_MS = 1000;
/** The interval between a launcher's syncs, ms; BUSY_SYNC_MS applies while a launch is under way. */
const SYNC_MS = 2000;
const BUSY_SYNC_MS = 1000;
/** The rule's memory is written at this interval, ms. Losing it only delays the next scale-down. */
const SAVE_RULE_MS = 60_000;

export interface SchedulerPorts {
  sql: Sql;
  /** Returns epoch ms. */
  now(): number;
  /** Returns random lower-case letters and digits. */
  randomName(length: number): string;
  machines: MachineMap;
  /** Returns the queue's newest report of its jobs. */
  queue(): QueueFacts;
  /** Returns what some workers did together in the newest ten minutes; null, or left out: nothing is known. */
  figures?(workerIds: readonly string[]): WorkersFigures | null;
}

/**
 * Schedules the workers of one queue: stores launches as rows and decides about them. Every method is synchronous, so
 * that its writes are one commit: a decision is on disk before any launcher can see it. After a crash the scheduler
 * continues from its rows. Its memory holds only recent reports; without them it waits for new ones before it acts on
 * them.
 */
export class Scheduler {
  readonly #ports: SchedulerPorts;
  readonly #core: Core;
  readonly specs: Specs;
  readonly #controls: Controls;
  readonly #versions: Versions;
  readonly #secrets: Secrets;
  #rule: RuleState;
  #ruleSavedAt: number;
  #last: LastDecision | null = null;
  #reconciledAt: number | null = null;

  constructor(ports: SchedulerPorts) {
    const { sql, now, machines } = ports;
    this.#ports = ports;
    this.#core = {
      sql,
      now,
      newId: () => ports.randomName(10),
      machines,
      launches: new Launches(sql, machines),
      providers: new Providers(),
    };
    this.#controls = new Controls(sql);
    this.#versions = new Versions(sql);
    this.specs = new Specs(this.#core, this.#controls, this.#versions);
    this.#adopt();
    this.#secrets = new Secrets(sql, ports.randomName);
    this.#rule = { ...EMPTY_STATE, ...readState<RuleState>(sql, 'rule') };
    this.#ruleSavedAt = now();
  }

  /** Forgets what was cached, after a commit was rolled back. */
  reload(): void {
    this.specs.reload();
    this.#controls.reload();
    this.#versions.reload();
    this.#core.launches.reload();
  }

  control(configId: string, action: PoolAction, dryRun: boolean): ControlAnswer {
    return control(
      { core: this.#core, controls: this.#controls, applied: this.specs.current() },
      configId,
      action,
      dryRun,
    );
  }

  /** Carries out what an operator says about the versions of a pool. @param dryRun only reports what it would do */
  roll(configId: string, request: RollRequest, dryRun: boolean): RollAnswer {
    const subject = {
      core: this.#core,
      versions: this.#versions,
      controls: this.#controls,
      applied: this.specs.current(),
    };
    return roll(subject, configId, request, dryRun);
  }

  /** Counts jobs that left a worker whose machine has ended by now; those of others are booked when they end. */
  displaced(workerId: string, jobs: DisplacedJobs): void {
    const { machines, sql, now } = this.#core;
    const launch = machines.byName.get(workerId)?.launch;
    if (launch && isFinal(launch)) bookDisplaced(sql, launch, jobs, now());
  }

  spentByDay(from: number): SpentOnDay[] {
    return spentByDay(this.#ports.sql, this.#core.launches.alive(), from, this.#ports.now());
  }

  controlOf(configId: string): ScalingControl | null {
    return this.specs.current()?.spec.pools[configId] ? this.#controls.of(configId).control : null;
  }

  /** Takes a launcher's report, and returns its orders. */
  sync(launcherId: string, report: LauncherReport): Omit<LauncherAnswer, 'orders'> & { orders: DueOrder[] } {
    const now = this.#ports.now();
    const providers = this.specs.providers();
    this.#core.providers.heard(launcherId, report, now);
    for (const result of report.results) takeResult(this.#core, result);
    this.#takeLists(launcherId, report, providers);
    const pools = this.specs.current()?.spec.pools ?? {};
    const own = Object.entries(providers).filter(([, { driver }]) => report.drivers.includes(driver));
    return {
      prefix: prefixOf(this.#secrets.installation),
      providers: own.map(([name, spec]) => ({ name, spec, instance_types: instanceTypesAt(name, pools) })),
      orders: takeOrders(this.#core, { launcherId, report, providers, pools, versions: this.#versions }),
      sync_after_ms: this.#isBusy ? BUSY_SYNC_MS : SYNC_MS,
      list_every_ms: LIST_EVERY_MS,
    };
  }

  /** Returns the names of the workers that the queue must give no more jobs. */
  cordon(): string[] {
    return cordonOf(this.#core.machines, prefixOf(this.#secrets.installation));
  }

  /** Returns the new versions that the queue must give a part of their pools' requests alone. */
  shares(): CanaryShare[] {
    return sharesIn(this.specs.current()?.spec ?? null, this.#versions);
  }

  /** Observes, decides and writes the decisions. @param answers the newest answers of queue and batches */
  reconcile(answers: Answers): void {
    const core = this.#core;
    this.#reconciledAt = core.now();
    followClock(core, this.#controls, this.#versions);
    join(core);
    clear(core, answers.cordoned);
    const providers = this.specs.providers();
    const queue = this.#ports.queue();
    const known = {
      applied: this.specs.current(),
      providers,
      controls: this.#controls,
      versions: this.#versions,
      figures: this.#ports.figures ?? (() => null),
      queue,
      answers,
    };
    const decided = decide(observe(core, known), this.#rule, core.now());
    act(core, decided.decisions, this.#versions, this.#secrets.installation);
    clear(core, answers.cordoned);
    core.launches.bound(core.now());
    this.#remember(decided);
  }

  /** Returns when to reconcile next, epoch ms; null: there is neither a spec nor a machine. */
  nextReconcile(): number | null {
    if (this.specs.current() === null && this.#core.launches.machines().length === 0) return null;
    if (this.#reconciledAt === null) return this.#ports.now();
    return this.#reconciledAt + (this.#isBusy ? BUSY_RECONCILE_MS : RECONCILE_MS);
  }

  /** When the scheduler last reconciled, epoch ms; 0 if it has not since it started. */
  get reconciledAt(): number {
    return this.#reconciledAt ?? 0;
  }

  /** Returns the worker of a launch that was ordered and has not ended, or null. */
  workerOf(launchId: string): LaunchedWorker | null {
    const launch = this.#core.launches.find(launchId);
    if (!launch || isFinal(launch) || launch.state === 'intended') return null;
    const price_per_hour = launch.price_per_hour > 0 ? launch.price_per_hour : null;
    return { worker_id: launch.name, config_id: launch.config_id, price_per_hour };
  }

  /** The key of the tokens of launched workers. */
  get tokenSecret(): string {
    return this.#secrets.token;
  }

  wantedWorkers(configId: string): number | null {
    if (!this.specs.current()?.spec.pools[configId]) return null;
    return this.#last?.decided.pools.find(({ config_id }) => config_id === configId)?.wanted ?? null;
  }

  /** Returns the ids of workers with another version than their pools are to have. */
  outdated(): Set<string> {
    return new Set(outdatedIn(this.#core.launches.alive(), this.#versions).map(({ name }) => name));
  }

  launches(): LaunchRow[] {
    return launchRows(this.#core, this.#last);
  }

  /** Returns the price of each pool's machines, US dollars an hour. */
  prices(): ReadonlyMap<string, number> {
    const applied = this.specs.current();
    return applied ? pricesOf(this.#core, applied.spec) : new Map();
  }

  scaling(): { summary: ScalingSummary; pools: ReadonlyMap<string, PoolScaling> } | null {
    const applied = this.specs.current();
    if (!applied) return null;
    return scalingOf(this.#core, {
      applied,
      installation: this.#secrets.installation,
      providers: this.specs.providers(),
      controls: this.#controls,
      versions: this.#versions,
      figures: this.#ports.figures ?? (() => null),
      pools: this.#ports.queue().pools,
      last: this.#last,
    });
  }

  /** Gives versions to the rows of a scheduler that knew none. */
  #adopt(): void {
    const { sql } = this.#ports;
    const before = readState<Record<string, { revision?: number }>>(sql, 'controls') ?? {};
    const adopted = adoptVersions(
      this.#versions,
      this.specs.current()?.spec.pools ?? {},
      this.#core.launches.all(),
      (id) => before[id]?.revision ?? 0,
      this.#core.now(),
    );
    for (const launch of adopted) this.#core.launches.save(launch);
  }

  #takeLists(
    launcherId: string,
    report: LauncherReport,
    providers: Readonly<Record<string, ProviderSpec>>,
  ): void {
    const now = this.#ports.now();
    for (const list of report.lists) {
      const { provider, machines, age_ms } = list;
      const driver = providers[provider]?.driver;
      if (driver === undefined) continue;
      const host = hostOf(driver, report);
      this.#core.providers.listed(launcherId, list, host, now);
      if (machines === null) continue;
      const { installation } = this.#secrets;
      takeList(this.#core, {
        provider,
        host,
        begun_at: now - age_ms,
        machines,
        installation,
      });
    }
  }

  #remember(decided: Decided): void {
    const now = this.#ports.now();
    this.#rule = decided.state;
    if (decided.decisions.length > 0 || now - this.#ruleSavedAt >= SAVE_RULE_MS) {
      writeState(this.#ports.sql, 'rule', decided.state);
      this.#ruleSavedAt = now;
    }
    const changed = new Set(
      decided.decisions.map((one) =>
        'config_id' in one ? one.config_id : this.#core.launches.find(one.launch_id)?.config_id,
      ),
    );
    this.#last = lastDecision(decided, changed, this.#last, now);
  }

  /** Whether a machine is starting or ending. */
  get #isBusy(): boolean {
    return this.#core.launches.alive().some(({ state }) => state !== 'ready');
  }
}

function instanceTypesAt(provider: string, pools: FleetSpec['pools']): string[] {
  const machines = Object.values(pools).flatMap((pool) => pool.machines);
  return [
    ...new Set(machines.filter((one) => one.provider === provider).map(({ instance_type }) => instance_type)),
  ];
}
