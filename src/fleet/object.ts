import { DurableObject } from 'cloudflare:workers';
import type { BatchesRpc } from '../batches/rpc.ts';
import { StoredAlarm, sqlOf } from '../durable/storage.ts';
import { CLOSE, type FleetView, type Heartbeat } from '../protocol/index.ts';
import type { AppliedSpec, LauncherAnswer, LauncherReport, SchedulerRpc } from '../scheduler/rpc.ts';
import {
  completeQueueSettings,
  DEFAULT_QUEUE,
  type QueueSettingBindings,
  settingsFromBindings,
} from '../settings/queue-settings.ts';
import { Alarms } from './alarms.ts';
import { LiveViewers } from './live-viewers.ts';
import { NewClock } from './new-clock.ts';
import { FleetRegistry } from './registry.ts';
import {
  type ConfigChoice,
  type ConfigStart,
  type FleetEvent,
  type FleetRpc,
  type KnownModel,
  type KnownWorker,
  type QueueShare,
  type QueueTells,
  type RecordAnswer,
  type RefusedWorker,
  type ResponseOwner,
  type SessionShare,
  SIGN_IN_HEADER,
} from './rpc.ts';
import { Scheduling } from './scheduling.ts';
import type { SignInRow } from './sign-in-table.ts';
import { viewerSocket } from './viewer-socket.ts';

/** What is new, log lines and samples wait this long for others to be stored with, ms. */
const SAVE_AFTER_MS = 1000;
/** The same of what is only measured anew. */
const SAVE_MEASURED_AFTER_MS = 5000;

/** Sockets of viewers; a person has a few. */
const MOST_VIEWERS = 1000;

interface FleetEnv extends QueueSettingBindings {
  QUEUE: DurableObjectNamespace;
  BATCHES: DurableObjectNamespace;
  FLEET: DurableObjectNamespace;
}

/**
 * The Durable Object around the registry, one for each queue id: its storage, its clock, the timer after which what
 * workers sent is stored, and the sockets of those who look at it. It has a thread and a database of its own, so that
 * no job waits for it.
 */
export class FleetObject extends DurableObject<FleetEnv> implements FleetRpc, SchedulerRpc {
  #registry!: FleetRegistry;
  #viewers!: LiveViewers;
  /** The queue is being asked for all of its numbers. */
  #asking: Promise<void> | null = null;
  #scheduling!: Scheduling;
  #alarm!: StoredAlarm;
  /** The one alarm, for each as if it were its own. */
  #registryAlarm!: ReturnType<Alarms['part']>;
  #schedulingAlarm!: ReturnType<Alarms['part']>;
  #newClock!: NewClock;
  #saving: { timer: ReturnType<typeof setTimeout>; at: number } | null = null;

  constructor(ctx: DurableObjectState, env: FleetEnv) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair('ping', 'pong'));
    ctx.blockConcurrencyWhile(async () => {
      this.#alarm = await StoredAlarm.read(ctx.storage);
      const alarms = new Alarms(this.#alarm);
      this.#registryAlarm = alarms.part();
      this.#schedulingAlarm = alarms.part();
      const [sql, now] = [sqlOf(ctx.storage), () => Date.now()];
      this.#registry = new FleetRegistry(
        { queueId: this.#queueId, sql, alarm: this.#registryAlarm, now },
        completeQueueSettings(settingsFromBindings(env)),
      );
      const save = () => this.#commit(() => this.#registry.save());
      this.#newClock = new NewClock({ ctx, sql, alarm: this.#alarm, queueId: this.#queueId, save });
      this.#scheduling = new Scheduling({
        scheduler: this.#registry.scheduler,
        queueId: this.#queueId,
        alarm: this.#schedulingAlarm,
        now,
        commit: (work) => this.#commit(work),
        cordon: (workerIds) => this.#queue.cordon(workerIds),
        backlog: () => this.#batches.backlog(),
        facts: () => this.#registry.facts(),
        configsOf: (models) => this.#registry.configsOf(models),
      });
      this.#viewers = new LiveViewers({
        sockets: () => ctx.getWebSockets().map((socket) => viewerSocket(ctx, socket)),
        view: this.#registry.view,
        now: () => Date.now(),
        isSignedIn: async (id) => (await this.#signIns.signedIn(id)) !== null,
        after: (ms, run) => void setTimeout(run, ms),
      });
    });
  }

  async heartbeat(beat: Heartbeat): Promise<void> {
    this.#newClock.watch();
    const isNews = this.#registry.heartbeat(beat);
    this.#saveIn(isNews ? SAVE_AFTER_MS : SAVE_MEASURED_AFTER_MS);
    this.#viewers.changed();
  }

  async keepTelemetry(...[workerId, batch]: Parameters<FleetRpc['keepTelemetry']>): Promise<void> {
    if (this.#registry.keepTelemetry(workerId, batch)) this.#commit(() => this.#registry.save());
    else this.#saveIn(SAVE_AFTER_MS);
  }

  async telemetry(...asked: Parameters<FleetRpc['telemetry']>): ReturnType<FleetRpc['telemetry']> {
    return this.#registry.telemetry(...asked);
  }

  async record(events: FleetEvent[], share?: QueueShare): Promise<RecordAnswer> {
    this.#newClock.watch();
    const answer = this.#commit(() => this.#registry.record(events, share));
    if (share) {
      this.#saveIn(SAVE_MEASURED_AFTER_MS);
      this.#scheduling.heard(share);
    }
    this.#viewers.changed();
    return answer;
  }

  async view(): Promise<FleetView> {
    await this.#hearOfQueue();
    this.#registry.view.refresh(Date.now());
    return this.#registry.view.view();
  }

  async history(...asked: Parameters<FleetRpc['history']>): ReturnType<FleetRpc['history']> {
    return this.#registry.history(...asked);
  }

  async refused(refused: RefusedWorker): Promise<void> {
    this.#registry.refused(refused);
    this.#viewers.changed();
  }

  /** `GET /api/fleet/live`: the socket of one who looks at the fleet. */
  override async fetch(upgrade: Request): Promise<Response> {
    if (this.ctx.getWebSockets().length >= MOST_VIEWERS) {
      return new Response(`${MOST_VIEWERS} viewers look at this fleet already; poll GET /api/fleet instead`, {
        status: 503,
      });
    }
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    this.#viewers.opened(viewerSocket(this.ctx, server), upgrade.headers.get(SIGN_IN_HEADER));
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
    return this.#registry.sessions();
  }

  async workers(): Promise<KnownWorker[]> {
    return this.#registry.workers();
  }

  async keepResponse(id: string, workerId: string, tenant: string | null): Promise<void> {
    this.#commit(() => this.#registry.keepResponse(id, workerId, tenant));
  }

  async ownerOfResponse(id: string, viewer: string | null): Promise<ResponseOwner> {
    return this.#registry.ownerOfResponse(id, viewer);
  }

  async signIn(signIn: SignInRow): Promise<void> {
    this.#commit(() => this.#registry.signIn(signIn));
  }

  async signedIn(idSha256: string): Promise<SignInRow | null> {
    return this.#registry.signedIn(idSha256);
  }

  async signOut(idSha256: string): Promise<void> {
    this.#commit(() => this.#registry.signOut(idSha256));
    this.#viewers.signedOut(idSha256);
  }

  async closeViewers(): Promise<void> {
    for (const socket of this.ctx.getWebSockets()) {
      viewerSocket(this.ctx, socket).close(CLOSE.restarting, 'tokens have changed');
    }
  }

  async models(): Promise<KnownModel[]> {
    return this.#registry.models();
  }

  async chooseConfigs(models: (string | null)[]): Promise<ConfigChoice[]> {
    return this.#registry.chooseConfigs(models);
  }

  async starts(): Promise<ConfigStart[]> {
    return this.#registry.starts();
  }

  async applySpec(...asked: Parameters<SchedulerRpc['applySpec']>): ReturnType<SchedulerRpc['applySpec']> {
    return this.#told(() => this.#registry.scheduler.applySpec(...asked));
  }

  async removeSpec(dryRun: boolean): ReturnType<SchedulerRpc['removeSpec']> {
    return this.#told(() => this.#registry.scheduler.removeSpec(dryRun));
  }

  async spec(): Promise<AppliedSpec | null> {
    return this.#registry.scheduler.spec();
  }

  async control(...asked: Parameters<SchedulerRpc['control']>): ReturnType<SchedulerRpc['control']> {
    return this.#told(() => this.#registry.scheduler.control(...asked));
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

  async wantedWorkers(configId: string): Promise<number | null> {
    return this.#registry.scheduler.wantedWorkers(configId);
  }

  override async alarm(): Promise<void> {
    this.#alarm.fired();
    const now = Date.now();
    const isSchedulingDue = this.#schedulingAlarm.isDue(now);
    if (this.#registryAlarm.isDue(now)) this.#commit(() => this.#registry.onAlarm());
    if (!isSchedulingDue) return;
    await this.#hearOfQueue();
    await this.#scheduling.look();
    this.#viewers.changed();
  }

  /** What an operator has said, looked at at once. */
  #told<T>(work: () => T): T {
    const answer = this.#commit(work);
    this.#scheduling.wake();
    this.#viewers.changed();
    return answer;
  }

  /** This object has lost the queue's numbers when it starts, and a queue where nothing happens tells none. */
  async #hearOfQueue(): Promise<void> {
    if (this.#registry.hasShare) return;
    this.#asking ??= this.#queue.tellFleet(true).then(
      () => {},
      // What is shown then is what heartbeats tell. The queue tells the rest when it can.
      () => {},
    );
    await this.#asking;
    this.#asking = null;
  }

  get #queue(): QueueTells {
    const { QUEUE } = this.env;
    return QUEUE.get(QUEUE.idFromName(this.#queueId)) as unknown as QueueTells;
  }

  /** Of all queues they are kept in one place. */
  get #signIns(): Pick<FleetRpc, 'signedIn'> {
    const { FLEET } = this.env;
    return this.#queueId === DEFAULT_QUEUE
      ? this
      : (FLEET.get(FLEET.idFromName(DEFAULT_QUEUE)) as unknown as FleetRpc);
  }

  get #batches(): Pick<BatchesRpc, 'backlog'> {
    const { BATCHES } = this.env;
    return BATCHES.get(BATCHES.idFromName(this.#queueId)) as unknown as BatchesRpc;
  }

  get #queueId(): string {
    return this.ctx.id.name ?? DEFAULT_QUEUE;
  }

  /** At the latest; what is due earlier takes all else along. */
  #saveIn(ms: number): void {
    const at = Date.now() + ms;
    if (this.#saving && this.#saving.at <= at) return;
    if (this.#saving) clearTimeout(this.#saving.timer);
    const timer = setTimeout(() => {
      this.#saving = null;
      this.#commit(() => this.#registry.save());
    }, ms);
    this.#saving = { timer, at };
  }

  #commit<T>(work: () => T): T {
    try {
      return this.ctx.storage.transactionSync(work);
    } catch (error) {
      this.#registry.scheduler.reload();
      throw error;
    }
  }
}
