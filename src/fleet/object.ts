import { DurableObject } from 'cloudflare:workers';
import { StoredAlarm, sqlOf } from '../durable/storage.ts';
import type { FleetHistory, FleetView, Heartbeat } from '../protocol/index.ts';
import type {
  AppliedSpec,
  ConfigAction,
  ControlAnswer,
  LauncherAnswer,
  LauncherReport,
  SchedulerRpc,
  SpecChange,
} from '../scheduler/rpc.ts';
import type { FleetSpec } from '../scheduler/spec.ts';
import {
  completeQueueSettings,
  type QueueSettingBindings,
  settingsFromBindings,
} from '../settings/queue-settings.ts';
import { LiveViewers, type ViewerSocket, type Watching } from './live-viewers.ts';
import { FleetRegistry } from './registry.ts';
import type {
  ConfigChoice,
  ConfigStart,
  FleetEvent,
  FleetRpc,
  HistoryRange,
  KnownModel,
  KnownWorker,
  QueueShare,
  QueueTells,
  RecordAnswer,
  RefusedWorker,
  SessionShare,
  Subject,
  TelemetryBatch,
  TelemetryKind,
  TelemetryPage,
  TelemetryQuery,
} from './rpc.ts';
import type { SignInRow } from './sign-in-table.ts';

/** What is new, log lines and samples wait this long for others to be stored with, ms. */
const SAVE_AFTER_MS = 1000;
/** The same of what is only measured anew. */
const SAVE_MEASURED_AFTER_MS = 5000;

/** Sockets of viewers; a person has a few. */
const MOST_VIEWERS = 1000;

interface FleetEnv extends QueueSettingBindings {
  QUEUE: DurableObjectNamespace;
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
  #alarm!: StoredAlarm;
  #saving: { timer: ReturnType<typeof setTimeout>; at: number } | null = null;

  constructor(ctx: DurableObjectState, env: FleetEnv) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair('ping', 'pong'));
    ctx.blockConcurrencyWhile(async () => {
      this.#alarm = await StoredAlarm.read(ctx.storage);
      this.#registry = new FleetRegistry(
        {
          queueId: this.#queueId,
          sql: sqlOf(ctx.storage),
          alarm: this.#alarm,
          now: () => Date.now(),
        },
        completeQueueSettings(settingsFromBindings(env)),
      );
      this.#viewers = new LiveViewers({
        sockets: () => ctx.getWebSockets().map((socket) => this.#viewerOf(socket)),
        view: this.#registry.view,
        now: () => Date.now(),
        after: (ms, run) => void setTimeout(run, ms),
      });
    });
  }

  async heartbeat(beat: Heartbeat): Promise<void> {
    const isNews = this.#registry.heartbeat(beat);
    this.#saveIn(isNews ? SAVE_AFTER_MS : SAVE_MEASURED_AFTER_MS);
    this.#viewers.changed();
  }

  async keepTelemetry(workerId: string, batch: TelemetryBatch): Promise<void> {
    if (this.#registry.keepTelemetry(workerId, batch)) this.#commit(() => this.#registry.save());
    else this.#saveIn(SAVE_AFTER_MS);
  }

  async telemetry(workerId: string, kind: TelemetryKind, query: TelemetryQuery): Promise<TelemetryPage> {
    return this.#registry.telemetry(workerId, kind, query);
  }

  async record(events: FleetEvent[], share?: QueueShare): Promise<RecordAnswer> {
    const answer = this.#commit(() => this.#registry.record(events, share));
    if (share) this.#saveIn(SAVE_MEASURED_AFTER_MS);
    this.#viewers.changed();
    return answer;
  }

  async view(): Promise<FleetView> {
    await this.#hearOfQueue();
    this.#registry.view.refresh(Date.now());
    return this.#registry.view.view();
  }

  async history(of: Subject, range: HistoryRange): Promise<FleetHistory> {
    return this.#registry.history(of, range);
  }

  async refused(refused: RefusedWorker): Promise<void> {
    this.#registry.refused(refused);
    this.#viewers.changed();
  }

  /** `GET /api/fleet/live`: the socket of one who looks at the fleet. */
  override async fetch(_upgrade: Request): Promise<Response> {
    if (this.ctx.getWebSockets().length >= MOST_VIEWERS) {
      return new Response(`${MOST_VIEWERS} viewers look at this fleet already; poll GET /api/fleet instead`, {
        status: 503,
      });
    }
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    this.#viewers.opened(this.#viewerOf(server));
    return new Response(null, { status: 101, webSocket: client });
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    await this.#hearOfQueue();
    this.#viewers.onMessage(this.#viewerOf(socket), typeof message === 'string' ? message : '');
  }

  override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
    // 1005 and 1006 say what was missing and may not be sent.
    this.#viewerOf(socket).close(code === 1005 || code === 1006 ? 1000 : code, '');
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

  async ownerOfResponse(id: string, viewer: string | null): Promise<string | null> {
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

  async applySpec(spec: FleetSpec, dryRun: boolean): Promise<SpecChange> {
    return this.#commit(() => this.#registry.scheduler.applySpec(spec, dryRun));
  }

  async removeSpec(dryRun: boolean): Promise<SpecChange | null> {
    return this.#commit(() => this.#registry.scheduler.removeSpec(dryRun));
  }

  async spec(): Promise<AppliedSpec | null> {
    return this.#registry.scheduler.spec();
  }

  async control(configId: string, action: ConfigAction, dryRun: boolean): Promise<ControlAnswer> {
    return this.#commit(() => this.#registry.scheduler.control(configId, action, dryRun));
  }

  async sync(launcherId: string, report: LauncherReport): Promise<LauncherAnswer> {
    return this.#commit(() => this.#registry.scheduler.sync(launcherId, report));
  }

  /** Stub. */
  async workerOfToken(_token: string): Promise<{ worker_id: string } | null> {
    return null;
  }

  async wantedWorkers(configId: string): Promise<number | null> {
    return this.#registry.scheduler.wantedWorkers(configId);
  }

  override async alarm(): Promise<void> {
    this.#alarm.fired();
    this.#commit(() => this.#registry.onAlarm());
  }

  /** This object has lost the queue's numbers when it starts, and a queue where nothing happens tells none. */
  async #hearOfQueue(): Promise<void> {
    if (this.#registry.hasShare) return;
    const { QUEUE } = this.env;
    const queue = QUEUE.get(QUEUE.idFromName(this.#queueId)) as unknown as QueueTells;
    this.#asking ??= queue.tellFleet(true).then(
      () => {},
      // What is shown then is what heartbeats tell. The queue tells the rest when it can.
      () => {},
    );
    await this.#asking;
    this.#asking = null;
  }

  #viewerOf(socket: WebSocket): ViewerSocket {
    return {
      load: () => socket.deserializeAttachment() as Watching,
      save: (watching) => socket.serializeAttachment(watching),
      pingedAt: () => this.ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0,
      send: (text) => quietly(() => socket.send(text)),
      close: (code, reason) => quietly(() => socket.close(code, reason)),
    };
  }

  get #queueId(): string {
    return this.ctx.id.name ?? 'vllm-queue';
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
    return this.ctx.storage.transactionSync(work);
  }
}

/** A socket that is gone throws on use, and is not among the object's sockets any more. */
function quietly(use: () => void): void {
  try {
    use();
  } catch {
    // Told by webSocketClose.
  }
}
