import { DurableObject } from 'cloudflare:workers';
import { StoredAlarm } from '../../durable/storage.ts';
import { CLOSE, type JobView, PING_TEXT, PONG_TEXT } from '../../protocol/index.ts';
import { RELAY_HEADER } from '../../relay/calls.ts';
import { Queue } from '../queue.ts';
import {
  type FileTicket,
  type FileUploadAnswer,
  type FollowedJob,
  isUnserved,
  type JobListWanted,
  type JobPage,
  type LedgerView,
  type QueueMetrics,
  type QueueRpc,
  type QueueStatus,
  type RequestAnswer,
  type RetryAnswer,
  type SettledJobs,
  type Unserved,
  type Viewer,
  type WaitingLineView,
  type WaitingRequest,
} from '../rpc.ts';
import { Commits } from './commits.ts';
import type { QueueEnv } from './env.ts';
import { Hearing } from './hearing.ts';
import { log } from './log.ts';
import { portsOf } from './ports.ts';
import { Relays } from './relays.ts';
import { reportToFleet } from './report-to-fleet.ts';
import { Resets } from './resets.ts';
import { givenSettings } from './settings.ts';
import { Sockets } from './sockets.ts';
import { TextCalls } from './text-calls.ts';
import { Timer } from './timer.ts';
import { answerRequest } from './waiting-requests.ts';
import { WebhookSender } from './webhook-sender.ts';

/**
 * The Durable Object around the rules: hands them storage, sockets, alarm and clock, and shares commits
 * (commits.ts); the runtime holds every reply and frame back until the commit is on disk.
 */
export class QueueObject extends DurableObject<QueueEnv> implements QueueRpc {
  #queue!: Queue;
  #texts!: TextCalls;
  #webhooks!: WebhookSender;
  readonly #commits = new Commits({
    beforeCommit: () => this.#queue.beforeCommit(),
    done: () => {
      this.#queue.jobs.answerListeners();
      this.#fleet.changed();
      this.#timer.arm(this.#queue.nextTick());
      const { clock } = this.#queue;
      if (clock.standsStill()) void this.#resets.forNewClock(clock, () => this.#roundTrip());
    },
    roundTrip: () => this.#roundTrip(),
    failed: (error, call) => this.#resets.afterError(error, call),
    failureOf: (call) => this.#resets.failureOf(call),
  });
  readonly #hearing = new Hearing(() => this.#queue, this.#commits);
  readonly #fleet = reportToFleet(this.env, this.#queueId, {
    share: () => this.#queue.numbers.share(),
    awaitsStart: () => this.#queue.lines.awaitStart,
    hearStarts: (starts) =>
      void this.#commits.atOnce(() => this.#queue.lines.hearStarts(starts)).catch(() => {}),
  });
  readonly #sockets = new Sockets(this.ctx, (effect) => this.#commits.defer(effect));
  /** For all that only memory knows of. */
  readonly #timer = new Timer((at) => {
    const tick = () => this.#queue.onTick(at);
    (this.#queue.isWriteDue ? this.#commits.together(tick) : this.#commits.atOnce(tick)).catch(() => {});
  });
  #alarm!: StoredAlarm;
  /** Null: they have objects of their own. */
  readonly #relays = Relays.of(this.env);
  readonly #resets = new Resets(this.ctx, this.#relays);
  readonly #requestPorts = {
    // In no batch: a dispatch writes nothing, and the caller waits for its first token.
    ask: (job: WaitingRequest) =>
      this.#commits.answered<RequestAnswer | Unserved>(`request ${job.job_id}`, (answer) =>
        this.#queue.request(job, answer),
      ),
    tellFleet: () => this.#fleet.flush(),
    relays: this.#relays,
  };

  constructor(ctx: DurableObjectState, env: QueueEnv) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING_TEXT, PONG_TEXT));
    ctx.blockConcurrencyWhile(async () => {
      // Before the rules look at anything: they move the alarm only when it is set later.
      this.#alarm = await StoredAlarm.read(ctx.storage);
      this.#queue = new Queue(
        portsOf(ctx, env, {
          alarm: this.#alarm,
          connection: (socket) => this.#sockets.connection(socket),
          relays: this.#relays,
          defer: (effect) => this.#commits.defer(effect),
          tellFleet: (event) => this.#fleet.tell(event),
          log,
        }),
        await givenSettings(env, this.#queueId),
      );
      this.#texts = new TextCalls({
        queue: this.#queue,
        bucket: env.FILES ?? null,
        prefix: ctx.id.toString(),
        commit: (work) => this.#commits.together(work),
        submit: (...submission) => this.#commits.submission(...submission),
        log,
      });
      this.#webhooks = new WebhookSender(env, {
        queue: this.#queue,
        commit: (work) => this.#commits.together(work),
        log,
      });
    });
  }

  /** A worker's control socket; the request of a caller that waits; or what is meant for a worker's relay. */
  override async fetch(request: Request): Promise<Response> {
    const relay = request.headers.get(RELAY_HEADER);
    if (relay !== null && this.#relays) return this.#relays.named(decodeURIComponent(relay)).fetch(request);
    const answer = await answerRequest(request, this.#requestPorts);
    if (answer) return answer;
    if (request.headers.get('upgrade')?.toLowerCase() !== 'websocket') {
      return new Response('the control socket is a WebSocket: connect with an upgrade', { status: 426 });
    }
    const { 0: client, 1: server } = new WebSocketPair();
    this.#sockets.accept(server, request);
    return new Response(null, { status: 101, webSocket: client });
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const heard = this.#sockets.heard(socket, message);
    if (heard !== null) await this.#hearing.hear(heard.connection, heard.text);
  }

  override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
    const connection = this.#sockets.connection(socket);
    // 1005 and 1006 say what was missing and may not be sent.
    connection.close(code === 1005 || code === 1006 ? CLOSE.done : code, '');
    await this.#commits.together(() => this.#queue.onClose(connection));
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    await this.#commits.together(() => this.#queue.onClose(this.#sockets.connection(socket)));
  }

  override async alarm(): Promise<void> {
    const setFor = this.#alarm.get();
    this.#alarm.fired();
    const [deletion, webhooks] = await this.#commits.together(() => [
      this.#queue.onAlarm(setFor),
      this.#queue.webhooks.take(),
    ]);
    // Not waited for: no lease is looked after while an alarm runs.
    this.ctx.waitUntil(this.#texts.delete(deletion));
    this.ctx.waitUntil(this.#webhooks.send(webhooks));
  }

  submit(...[sent]: Parameters<QueueRpc['submit']>): ReturnType<QueueRpc['submit']> {
    return this.#submitted(this.#texts.submit(sent));
  }

  submitAndListen(
    ...asked: Parameters<QueueRpc['submitAndListen']>
  ): ReturnType<QueueRpc['submitAndListen']> {
    return this.#submitted(this.#texts.submitAndListen(...asked));
  }

  async #submitted<T extends object>(answering: Promise<T[]>): Promise<T[]> {
    const answers = await answering;
    // The fleet object is asked next.
    if (answers.some(isUnserved)) await this.#fleet.flush();
    return answers;
  }

  async get(jobId: string, viewer: Viewer): Promise<JobView | null> {
    return this.#texts.withResult(this.#queue.jobs.get(jobId, viewer));
  }

  contents(...asked: Parameters<QueueRpc['contents']>): ReturnType<QueueRpc['contents']> {
    return this.#texts.contents(...asked);
  }

  async list(wanted: JobListWanted): Promise<JobPage> {
    return this.#queue.jobs.list(wanted);
  }

  settlements(...[wanted]: Parameters<QueueRpc['settlements']>): ReturnType<QueueRpc['settlements']> {
    return this.#commits.answered(null, (answer) => this.#queue.jobs.settlements(wanted, answer));
  }

  async ledger(jobId: string, viewer: Viewer): Promise<LedgerView | null> {
    return this.#queue.jobs.ledger(jobId, viewer);
  }

  async wait(jobId: string, waitMs: number, viewer: Viewer): Promise<JobView | null> {
    const view = await this.#commits.answered<JobView | null>(`wait ${jobId}`, (answer) =>
      this.#queue.jobs.wait(jobId, waitMs, answer, viewer),
    );
    return this.#texts.withResult(view);
  }

  async follow(jobId: string, fence: number, waitMs: number, viewer: Viewer): Promise<FollowedJob | null> {
    const view = await this.#commits.answered<JobView | null>(`follow ${jobId}`, (answer) =>
      this.#queue.jobs.follow(jobId, fence, waitMs, answer, viewer),
    );
    const job = await this.#texts.withResult(view);
    return job && { job, ...this.#queue.jobs.outputOf(job) };
  }

  listen(...asked: Parameters<QueueRpc['listen']>): Promise<string[]> {
    return this.#commits.answered<string[]>(`listen ${asked[0]}`, (answer) =>
      answer(this.#queue.jobs.listen(...asked)),
    );
  }

  nextSettled(listener: string, waitMs: number): Promise<SettledJobs> {
    return this.#commits.answered<SettledJobs>(`nextSettled ${listener}`, (answer) =>
      this.#queue.jobs.nextSettled(listener, waitMs, answer),
    );
  }

  async leaveListener(listener: string): Promise<void> {
    this.#queue.jobs.leaveListener(listener);
  }

  async cancel(...asked: Parameters<QueueRpc['cancel']>): ReturnType<QueueRpc['cancel']> {
    const work = () => this.#queue.cancel(...asked);
    return this.#texts.withResult(await this.#commits.together(work, `cancel ${asked[0]}`));
  }

  async retry(jobId: string, viewer: Viewer): Promise<RetryAnswer | null> {
    return this.#commits.together(() => this.#queue.retry(jobId, viewer), `retry ${jobId}`);
  }

  async purge(configId: string, viewer: Viewer): Promise<number> {
    return this.#commits.together(() => this.#queue.purge(configId, viewer), `purge ${configId}`);
  }

  async takeOutput(...taken: Parameters<QueueRpc['takeOutput']>): Promise<boolean> {
    return this.#commits.together(() => this.#queue.jobs.takeOutput(...taken), `takeOutput ${taken[0]}`);
  }

  readFile(ticket: FileTicket, form: 'own' | 'base') {
    return this.#texts.readFile(ticket, form);
  }

  async mayStoreFile(ticket: FileTicket): Promise<FileUploadAnswer> {
    return this.#queue.files.mayStore(ticket);
  }

  storeFile(ticket: FileTicket, bytes: Uint8Array): Promise<FileUploadAnswer> {
    return this.#texts.storeFile(ticket, bytes);
  }

  async waitingLines(): Promise<WaitingLineView[]> {
    return this.#queue.lines.all();
  }

  async tellFleet(everything = false): Promise<void> {
    if (everything) this.#fleet.forget();
    await this.#fleet.flush();
  }

  async cordon(workerIds: string[]): Promise<Record<string, number>> {
    return this.#commits.together(() => this.#queue.cordon(workerIds)).finally(() => this.#fleet.flush());
  }

  async hasSession(workerId: string, sessionId: string): Promise<boolean> {
    return this.#queue.hasSession(workerId, sessionId);
  }

  async status(configId?: string): Promise<QueueStatus> {
    return this.#queue.status(configId);
  }

  async metrics(): Promise<QueueMetrics> {
    return {
      ...this.#queue.numbers.metrics(),
      storage_bytes: this.ctx.storage.sql.databaseSize,
      relays: this.#relays?.metrics() ?? null,
    };
  }

  async configNow(configId: string): ReturnType<QueueRpc['configNow']> {
    return this.#queue.numbers.configNow(configId);
  }

  async batchSlots(...[models]: Parameters<QueueRpc['batchSlots']>): ReturnType<QueueRpc['batchSlots']> {
    return this.#queue.numbers.batchSlots(models);
  }

  /** See Commits. */
  async noop(): Promise<void> {}

  usage(...[wanted]: Parameters<QueueRpc['usage']>): ReturnType<QueueRpc['usage']> {
    return this.#commits.together(() => this.#queue.usage(wanted));
  }

  async closeSockets(): Promise<void> {
    await this.#commits.together(() => this.#queue.writeUsage());
    this.#queue.leave();
    for (const socket of this.ctx.getWebSockets())
      this.#sockets.connection(socket).close(CLOSE.restarting, 'queue restarting');
    this.#resets.withProcess();
  }

  #roundTrip(): Promise<void> {
    return (this.env.QUEUE.get(this.ctx.id) as unknown as QueueObject).noop();
  }

  get #queueId(): string {
    return this.ctx.id.name ?? 'vllm-queue';
  }
}
