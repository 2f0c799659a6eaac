import { deliver } from '../durable/deliver.ts';
import { objectThatOffers, offer } from '../durable/offered.ts';
import { randomName } from '../durable/random-text.ts';
import { sqlOf } from '../durable/storage.ts';
import { StoredAlarm } from '../durable/stored-alarm.ts';
import type { FleetView, Heartbeat } from '../protocol/index.ts';
import type { LauncherAnswer, LauncherReport, SchedulerRpc } from '../scheduler/rpc.ts';
import {
  completeQueueSettings,
  DEFAULT_QUEUE,
  type QueueSettingBindings,
  settingsFromBindings,
} from '../settings/queue-settings.ts';
import { Alarms } from './alarms.ts';
import { AlertPoster } from './alert-poster.ts';
import { type Called, COMMANDS, type FleetCalls, type Offered, OPERATOR_COMMANDS, VIEWS } from './calls.ts';
import { Fleet } from './fleet.ts';
import { LiveViewers } from './live-viewers.ts';
import { NewClock } from './new-clock.ts';
import { type ObjectNamespaces, OtherObjects } from './other-objects.ts';
import type { FleetRpc, KnownWorker, RecordAnswer, RefusedWorker, SessionShare } from './rpc.ts';
import { SaveTimer } from './save-timer.ts';
import { Scheduling } from './scheduling.ts';
import { openedWith, viewerSocket } from './viewer-socket.ts';

/** News, log lines and samples wait this long for others to be stored with, ms. */
const SAVE_AFTER_MS = 1000;
/** The same for heartbeats with new measurements only. */
const SAVE_MEASURED_AFTER_MS = 5000;

/** Sockets of viewers; a person has a few. */
const MOST_VIEWERS = 1000;

type FleetEnv = QueueSettingBindings &
  ObjectNamespaces & {
    /** Reaches private addresses too; absent on Cloudflare. */
    PRIVATE_NETWORK?: { fetch: typeof fetch };
  };

/**
 * The Durable Object around the fleet's rules, one for each queue id: its storage, its clock, the timer after which what
 * workers sent is stored, and the sockets of those who look at it. It has a thread and a database of its own, so that
 * no job waits for it.
 */
export class FleetObject extends objectThatOffers<FleetEnv, Offered>() implements FleetCalls {
  static {
    type Calls = Record<string, (called: Called, ...asked: unknown[]) => unknown>;
    const offerAll = (calls: object, run: (object: FleetObject, call: () => unknown) => unknown) =>
      offer(FleetObject, Object.keys(calls), async (object, name, asked) =>
        run(object, () => (calls as Calls)[name]!(object.#called, ...asked)),
      );
    offerAll(VIEWS, (_, call) => call());
    offerAll(COMMANDS, (object, call) => object.#commit(call));
    offerAll(OPERATOR_COMMANDS, (object, call) => object.#told(call));
  }

  #fleet!: Fleet;
  #viewers!: LiveViewers;
  /** The queue is being asked for all of its numbers. */
  #asking: Promise<void> | null = null;
  #scheduling!: Scheduling;
  #alarm!: StoredAlarm;
  /** The one alarm, for each as if it were its own. */
  #fleetAlarm!: ReturnType<Alarms['part']>;
  #schedulingAlarm!: ReturnType<Alarms['part']>;
  #alertAlarm!: ReturnType<Alarms['part']>;
  #viewerAlarm!: ReturnType<Alarms['part']>;
  #poster!: AlertPoster;
  #newClock!: NewClock;
  readonly #others = new OtherObjects(this.env, this.#queueId);
  readonly #saving = new SaveTimer(() => this.#commit(() => this.#fleet.save()));

  constructor(ctx: DurableObjectState, env: FleetEnv) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair('ping', 'pong'));
    ctx.blockConcurrencyWhile(async () => {
      this.#alarm = await StoredAlarm.read(ctx.storage);
      const alarms = new Alarms(this.#alarm);
      this.#fleetAlarm = alarms.part();
      this.#schedulingAlarm = alarms.part();
      this.#alertAlarm = alarms.part();
      this.#viewerAlarm = alarms.part();
      const [sql, now] = [sqlOf(ctx.storage), () => Date.now()];
      const settings = completeQueueSettings(settingsFromBindings(env));
      this.#fleet = new Fleet(
        { queueId: this.#queueId, sql, alarm: this.#fleetAlarm, now, randomName },
        settings,
      );
      const save = () => this.#commit(() => this.#fleet.save());
      this.#newClock = new NewClock({ ctx, sql, alarm: this.#alarm, queueId: this.#queueId, save });
      this.#scheduling = new Scheduling({
        fleet: this.#fleet,
        queueId: this.#queueId,
        alarm: this.#schedulingAlarm,
        now,
        commit: (work) => this.#commit(work),
        cordon: (workerIds) => this.#others.queue().cordon(workerIds),
        backlog: () => this.#others.batches().backlog(),
        after: (ms, run) => {
          const timer = setTimeout(run, ms);
          return () => clearTimeout(timer);
        },
        log: (level, msg, error) =>
          console.log(JSON.stringify({ level, msg, queue_id: this.#queueId, error: String(error) })),
      });
      const { alert_url: alertUrl, alert_settled_seconds: settled } = settings;
      this.#poster = new AlertPoster({
        alerts: this.#fleet.alerts,
        view: () => this.view(),
        url: alertUrl,
        queueId: this.#queueId === DEFAULT_QUEUE ? null : this.#queueId,
        alarm: this.#alertAlarm,
        everyMs: (settled * 1000) / 3,
        now,
        commit: (work) => this.#commit(work),
        // The operator's own receiver may be at a private address, for which workerd has a network of its own.
        post: (body) =>
          deliver((...asked) => (env.PRIVATE_NETWORK ?? globalThis).fetch(...asked), alertUrl, body),
        log: (level, msg) => console.log(JSON.stringify({ level, msg, queue_id: this.#queueId })),
      });
      this.#viewers = new LiveViewers({
        sockets: () => ctx.getWebSockets().map((socket) => viewerSocket(ctx, socket)),
        view: this.#fleet.view,
        now: () => Date.now(),
        alarm: this.#viewerAlarm,
        isSignedIn: async (id) => (await this.#signIns.signedIn(id)) !== null,
        after: (ms, run) => void setTimeout(run, ms),
      });
    });
  }

  async heartbeat(beat: Heartbeat): Promise<void> {
    this.#newClock.watch();
    const isNews = this.#fleet.heartbeat(beat);
    this.#saving.within(isNews ? SAVE_AFTER_MS : SAVE_MEASURED_AFTER_MS);
    this.#poster.heard();
    this.#viewers.changed();
  }

  async keepTelemetry(...[workerId, batch]: Parameters<FleetRpc['keepTelemetry']>): Promise<void> {
    const { telemetry } = this.#fleet;
    telemetry.add({ worker_id: workerId, kind: batch.kind }, batch.items);
    if (telemetry.isFull) this.#commit(() => this.#fleet.save());
    else this.#saving.within(SAVE_AFTER_MS);
  }

  async record(...told: Parameters<FleetRpc['record']>): Promise<RecordAnswer> {
    const [, share] = told;
    this.#newClock.watch();
    const answer = this.#commit(() => this.#fleet.record(...told));
    if (share) {
      this.#saving.within(SAVE_MEASURED_AFTER_MS);
      this.#scheduling.heard(share);
    }
    this.#poster.heard();
    this.#viewers.changed();
    return answer;
  }

  async view(): Promise<FleetView> {
    await this.#hearOfQueue();
    this.#fleet.view.refresh(Date.now());
    return this.#fleet.view.view();
  }

  async acknowledge(id: string, by: string | null): ReturnType<FleetRpc['acknowledge']> {
    const problem = this.#commit(() => this.#fleet.alerts.acknowledge(id, by, Date.now()));
    this.#viewers.changed();
    return problem;
  }

  async forgetWorker(id: string): ReturnType<FleetRpc['forgetWorker']> {
    const done = this.#commit(() => this.#fleet.forgetWorker(id));
    this.#viewers.changed();
    return done;
  }

  async refused(refused: RefusedWorker): Promise<void> {
    this.#fleet.incidents.refused(refused, Date.now());
    this.#poster.heard();
    this.#viewers.changed();
  }

  /** `GET /api/fleet/live`: the socket of a viewer. */
  override async fetch(upgrade: Request): Promise<Response> {
    if (this.ctx.getWebSockets().length >= MOST_VIEWERS) {
      return new Response(`${MOST_VIEWERS} viewers look at this fleet already; poll GET /api/fleet instead`, {
        status: 503,
      });
    }
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    this.#viewers.opened(viewerSocket(this.ctx, server), openedWith(upgrade.headers));
    return new Response(null, { status: 101, webSocket: client });
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    await this.#hearOfQueue();
    this.#viewers.onMessage(viewerSocket(this.ctx, socket), typeof message === 'string' ? message : '');
  }

  override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
    // 1005 and 1006 say what was missing and may not be sent.
    viewerSocket(this.ctx, socket).close(code === 1005 || code === 1006 ? 1000 : code, '');
  }

  async sessions(): Promise<SessionShare[]> {
    await this.#hearOfQueue();
    return this.#fleet.workers.sessions();
  }

  async workers(): Promise<KnownWorker[]> {
    await this.#hearOfQueue();
    return this.#fleet.workers.list();
  }

  async signOut(idSha256: string): Promise<void> {
    this.#commit(() => this.#fleet.signIns.remove(idSha256));
    this.#viewers.signedOut(idSha256);
  }

  async closeViewers(secrets: readonly string[]): Promise<void> {
    this.#viewers.tokensChanged(secrets);
  }

  async sync(launcherId: string, report: LauncherReport): Promise<LauncherAnswer> {
    this.#newClock.watch();
    const answer = await this.#scheduling.sync(launcherId, report);
    this.#viewers.changed();
    return answer;
  }

  async workerOfToken(token: string): ReturnType<SchedulerRpc['workerOfToken']> {
    return this.#scheduling.workerOfToken(token);
  }

  override alarm(): Promise<void> {
    const now = Date.now();
    return this.#alarm.fires(now, () => this.#doWhatIsDue(now));
  }

  async #doWhatIsDue(now: number): Promise<void> {
    const isSchedulingDue = this.#schedulingAlarm.isDue(now);
    const isAlertDue = this.#alertAlarm.isDue(now);
    if (this.#fleetAlarm.isDue(now)) this.#commit(() => this.#fleet.onAlarm());
    if (this.#viewerAlarm.isDue(now)) this.#viewers.closeExpired();
    if (isAlertDue) await this.#poster.postNews();
    if (!isSchedulingDue) return;
    await this.#hearOfQueue();
    await this.#scheduling.reconcile();
    this.#viewers.changed();
  }

  /** What an operator has said: the scheduler looks at it at once. */
  #told<T>(work: () => T): T {
    const answer = this.#commit(work);
    this.#scheduling.wake();
    this.#viewers.changed();
    return answer;
  }

  /** This object has lost the queue's numbers when it starts, and a queue where nothing happens tells none. */
  async #hearOfQueue(): Promise<void> {
    if (this.#fleet.hasShare) return;
    this.#asking ??= this.#others
      .queue()
      .tellFleet(true)
      .then(
        () => {},
        // The view then shows what heartbeats tell, until the queue reports the rest.
        () => {},
      );
    await this.#asking;
    this.#asking = null;
  }

  get #called(): Called {
    return { fleet: this.#fleet, queueId: this.#queueId, now: Date.now() };
  }

  get #signIns(): Pick<FleetRpc, 'signedIn'> {
    return this.#queueId === DEFAULT_QUEUE ? this : this.#others.fleetOfDefaultQueue();
  }

  get #queueId(): string {
    return this.ctx.id.name ?? DEFAULT_QUEUE;
  }

  #commit<T>(work: () => T): T {
    try {
      return this.ctx.storage.transactionSync(work);
    } catch (error) {
      this.#fleet.scheduler.reload();
      throw error;
    }
  }
}
