import type { BatchesObject } from '../batches/object.ts';
import { type CallsOf, type Exposed, expose } from '../durable/calls.ts';
import type { HostedObject, ObjectHost } from '../durable/host.ts';
import type { Heartbeat, RequestRecord, TestPost } from '../protocol/index.ts';
import { randomName } from '../protocol/random-text.ts';
import type { DisplacedJobs } from '../scheduler/machines.ts';
import type { LaunchedWorker, LauncherAnswer, LauncherReport } from '../scheduler/rpc.ts';
import {
  completeQueueSettings,
  DEFAULT_QUEUE,
  type QueueSettingBindings,
  settingsFromBindings,
} from '../settings/queue-settings.ts';
import type { Alerting, AlertingPorts, MakeAlerting } from './alerting.ts';
import {
  type Called,
  COMMANDS,
  type FleetCalls,
  OPERATOR_COMMANDS,
  QUEUE_VIEWS,
  SHOWN_COMMANDS,
  VIEWS,
} from './calls.ts';
import { Fleet } from './fleet.ts';
import { LiveViewers, type OpenedWith, type ViewerSocket, type Watching } from './live-viewers.ts';
import type {
  FleetEvent,
  QueueShare,
  QueueTells,
  RecordAnswer,
  RefusedWorker,
  TelemetryBatch,
} from './rpc.ts';
import { Scheduling } from './scheduling.ts';
import { SilenceWatch } from './silence.ts';
import { Alarms, SaveTimer } from './timers.ts';

/** News, log lines and samples wait up to this long, ms, so that several are stored together. */
const SAVE_AFTER_MS = 1000;
/** Heartbeats that have only new measurements wait up to this long, ms, so that several are stored together. */
const SAVE_MEASURED_AFTER_MS = 5000;

/** The most sockets of viewers that the object accepts; a person opens a few. */
const MOST_VIEWERS = 1000;

/** The class makes methods of tables of calls. */
const Exposing = class {} as new () => Exposed<FleetCalls>;

type SignIns = Pick<Exposed<typeof VIEWS>, 'signedIn'>;

/** The other objects that this one asks. */
interface Asked {
  queue(queueId: string): QueueTells;
  fleet(queueId: string): SignIns;
  batches(queueId: string): Pick<CallsOf<BatchesObject>, 'backlog'>;
}

/**
 * The object around the fleet's rules, one for each queue id, with a database of its own: its storage, its clock, the
 * timer for storing what workers sent, and the sockets of viewers.
 */
export class FleetObject extends Exposing implements HostedObject<OpenedWith, Watching> {
  static {
    type Calls = Record<string, (called: Called, ...asked: unknown[]) => unknown>;
    const exposeAll = (calls: object, run: (object: FleetObject, call: () => unknown) => unknown) =>
      expose(FleetObject, calls as Calls, async (object, name, asked) =>
        run(object, () => (calls as Calls)[name]!(object.#called, ...asked)),
      );
    exposeAll(VIEWS, (_, call) => call());
    exposeAll(QUEUE_VIEWS, (object, call) => object.#ensureShare().then(call));
    exposeAll(COMMANDS, (object, call) => object.#commit(call));
    exposeAll(SHOWN_COMMANDS, (object, call) => object.#shown(call));
    exposeAll(OPERATOR_COMMANDS, async (object, call) => object.#operate(call));
  }

  readonly pings = { ping: 'ping', pong: 'pong' };
  readonly #host: ObjectHost<Watching>;
  readonly #objects: Asked;
  readonly #fleet: Fleet;
  readonly #viewers: LiveViewers;
  /** The running request for all of the queue's numbers. */
  #asking: Promise<void> | null = null;
  readonly #scheduling: Scheduling;
  readonly #silence: SilenceWatch;
  /** The parts of the object's one alarm; each is used as if it were the only one. */
  readonly #fleetAlarm: ReturnType<Alarms['part']>;
  readonly #schedulingAlarm: ReturnType<Alarms['part']>;
  readonly #alertAlarm: ReturnType<Alarms['part']>;
  readonly #viewerAlarm: ReturnType<Alarms['part']>;
  readonly #silenceAlarm: ReturnType<Alarms['part']>;
  readonly #saving: SaveTimer;

  constructor(
    host: ObjectHost<Watching>,
    bindings: QueueSettingBindings,
    objects: Asked,
    alerting: MakeAlerting,
  ) {
    super();
    this.#host = host;
    this.#objects = objects;
    const { queueId, sql } = host;
    const [now, after] = [() => host.now(), host.after.bind(host)];
    const commit = <T>(work: () => T) => this.#commit(work);
    const alarms = new Alarms(host.alarm);
    this.#fleetAlarm = alarms.part();
    this.#schedulingAlarm = alarms.part();
    this.#alertAlarm = alarms.part();
    this.#viewerAlarm = alarms.part();
    this.#silenceAlarm = alarms.part();
    const settings = completeQueueSettings(settingsFromBindings(bindings));
    this.#fleet = new Fleet(
      {
        queueId,
        sql,
        alarm: this.#fleetAlarm,
        now,
        randomName,
        alerting: () => alerting(this.#alertingPorts()),
      },
      settings,
    );
    this.#saving = new SaveTimer({ save: () => this.#save(), now, after });
    this.#scheduling = new Scheduling({
      fleet: this.#fleet,
      queueId,
      alarm: this.#schedulingAlarm,
      now,
      commit,
      cordon: (workerIds, shares) => objects.queue(queueId).cordon(workerIds, shares),
      backlog: () => objects.batches(queueId).backlog(),
      after,
      log: (level, message, error) => host.log(level, message, { queue_id: queueId, error: String(error) }),
    });
    this.#silence = new SilenceWatch({
      connected: () => this.#fleet.connected(),
      ensureShare: () => this.#ensureShare(),
      closeSilent: (ids) => objects.queue(queueId).closeSilent(ids),
      alarm: this.#silenceAlarm,
      now,
    });
    this.#viewers = new LiveViewers({
      sockets: () => host.sockets(),
      view: this.#fleet.view,
      now,
      alarm: this.#viewerAlarm,
      isSignedIn: async (id) => (await this.#signIns.signedIn(id)) !== null,
      after,
      background: (work) => host.background(work),
    });
  }

  /** Takes a worker's heartbeat. It is on disk within five seconds, news within one; an earlier crash may lose it. */
  async heartbeat(beat: Heartbeat): Promise<void> {
    const isNews = this.#fleet.heartbeat(beat);
    this.#saving.within(isNews ? SAVE_AFTER_MS : SAVE_MEASURED_AFTER_MS);
    this.#silence.heard();
    this.#alerting.heard();
    this.#viewers.changed();
  }

  /** Takes log lines or samples of a worker. They are on disk within a second or so; an earlier crash may lose them. */
  async keepTelemetry(workerId: string, batch: TelemetryBatch): Promise<void> {
    const { telemetry } = this.#fleet;
    telemetry.add({ worker_id: workerId, kind: batch.kind }, batch.items);
    if (telemetry.isFull) this.#save();
    else this.#saving.within(SAVE_AFTER_MS);
  }

  /**
   * Takes what only the queue sees: events of its workers, oldest first, its numbers that have changed, requests that
   * have ended, and by worker how many attempts have failed and what became of jobs that it could not finish. A repeated
   * report changes nothing; the queue repeats no counts by worker.
   */
  async record(
    events: readonly FleetEvent[],
    share?: QueueShare,
    ended?: readonly RequestRecord[],
    failed?: Readonly<Record<string, number>>,
    displaced?: Readonly<Record<string, DisplacedJobs>>,
  ): Promise<RecordAnswer> {
    const answer = this.#commit(() => this.#fleet.record(events, share, ended, failed, displaced));
    if (share) {
      this.#saving.within(SAVE_MEASURED_AFTER_MS);
      this.#scheduling.heard(share);
      this.#silence.heard();
    }
    this.#alerting.heard();
    this.#viewers.changed();
    return answer;
  }

  /** Notes, in memory only, that the gateway refused a worker. */
  async refused(refused: RefusedWorker): Promise<void> {
    this.#fleet.incidents.refused(refused, this.#host.now());
    this.#alerting.heard();
    this.#viewers.changed();
  }

  mayOpen(): string | null {
    if (this.#host.sockets().length < MOST_VIEWERS) return null;
    return `${MOST_VIEWERS} viewers look at this fleet already; poll GET /api/fleet instead`;
  }

  opened(socket: ViewerSocket, opened: OpenedWith): void {
    this.#viewers.opened(socket, opened);
  }

  async message(socket: ViewerSocket, message: string | Uint8Array): Promise<void> {
    await this.#ensureShare();
    this.#viewers.onMessage(socket, typeof message === 'string' ? message : '');
  }

  async signOut(idSha256: string): Promise<void> {
    this.#commit(() => this.#fleet.signIns.remove(idSha256));
    this.#viewers.signedOut(idSha256);
  }

  /**
   * Closes the sockets of viewers with these tokens, which have to show again that they may look. @param secrets
   * SHA-256 of each token
   */
  async closeViewers(secrets: readonly string[]): Promise<void> {
    this.#viewers.tokensChanged(secrets);
  }

  /** Sends a test to a receiver of alerts. @returns its answer, or null: there is none of that name */
  async testAlertReceiver(name: string): Promise<TestPost | null> {
    return await this.#alerting.test(name);
  }

  /** Takes a launcher's report, and returns the scheduler's orders. */
  async sync(launcherId: string, report: LauncherReport): Promise<LauncherAnswer> {
    const answer = await this.#scheduling.sync(launcherId, report);
    this.#viewers.changed();
    return answer;
  }

  /** Returns the worker whose token this is, or null if no launch that still stands has it. */
  async workerOfToken(token: string): Promise<LaunchedWorker | null> {
    return this.#scheduling.workerOfToken(token);
  }

  clockSetBack(): void {
    this.#save();
  }

  async alarm(): Promise<void> {
    const now = this.#host.now();
    const isSchedulingDue = this.#schedulingAlarm.isDue(now);
    const isAlertDue = this.#alertAlarm.isDue(now);
    if (this.#fleetAlarm.isDue(now)) this.#commit(() => this.#fleet.onAlarm());
    if (this.#viewerAlarm.isDue(now)) this.#viewers.closeExpired();
    if (this.#silenceAlarm.isDue(now)) this.#host.background(this.#silence.onAlarm().catch(() => {}));
    if (isAlertDue) await this.#alerting.onAlarm();
    if (!isSchedulingDue) return;
    await this.#ensureShare();
    await this.#scheduling.reconcile();
    this.#viewers.changed();
  }

  #shown<T>(work: () => T): T {
    const answer = this.#commit(work);
    this.#viewers.changed();
    return answer;
  }

  /** Runs an operator's command, of which the scheduler takes note at once. */
  async #operate<T>(work: () => T): Promise<T> {
    const before = this.#fleet.aliases;
    const answer = this.#shown(work);
    this.#scheduling.wake();
    // The queue is told of aliases with the answer to its report; if it does not report now, its next report will do.
    if (this.#fleet.aliases !== before) await this.#askQueue();
    return answer;
  }

  /**
   * Asks the queue for its numbers, which this object has lost when it starts: a queue where nothing happens reports
   * none.
   */
  async #ensureShare(): Promise<void> {
    if (this.#fleet.hasShare) return;
    this.#asking ??= this.#askQueue();
    await this.#asking;
    this.#asking = null;
  }

  /** Has the queue report all of its numbers. If it does not answer, the view shows what heartbeats report. */
  #askQueue(): Promise<void> {
    const queue = this.#objects.queue(this.#host.queueId);
    return queue.tellFleet(true).then(
      () => {},
      () => {},
    );
  }

  #alertingPorts(): AlertingPorts {
    const { queueId, sql } = this.#host;
    return {
      queueId,
      sql,
      alarm: this.#alertAlarm,
      now: () => this.#host.now(),
      view: () => this.view(),
      randomName,
      commit: (work) => this.#commit(work),
      background: (work) => this.#host.background(work),
      log: (level, message, fields) => this.#host.log(level, message, { queue_id: queueId, ...fields }),
    };
  }

  get #alerting(): Alerting {
    return this.#fleet.alerting;
  }

  get #called(): Called {
    const { queueId } = this.#host;
    return { fleet: this.#fleet, queueId, now: this.#host.now() };
  }

  /** The sign-ins of all queues, which the default queue's object stores. */
  get #signIns(): SignIns {
    return this.#host.queueId === DEFAULT_QUEUE ? this : this.#objects.fleet(DEFAULT_QUEUE);
  }

  #save(): void {
    this.#commit(() => this.#fleet.save());
  }

  #commit<T>(work: () => T): T {
    try {
      return this.#host.transaction(work);
    } catch (error) {
      this.#fleet.scheduler.reload();
      this.#fleet.tokens.reload();
      throw error;
    }
  }
}
