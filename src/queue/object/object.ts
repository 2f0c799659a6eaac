import { objectThatOffers, offer } from '../../durable/offered.ts';
import { StoredAlarm } from '../../durable/stored-alarm.ts';
import { CLOSE, PING_TEXT, PONG_TEXT } from '../../protocol/index.ts';
import { RELAY_HEADER } from '../../relay/calls.ts';
import type { Asked as AskedOf, COMMANDS } from '../calls.ts';
import { Queue } from '../queue.ts';
import {
  isUnserved,
  type QueueRpc,
  type RequestAnswer,
  type SubmitJob,
  type ToldJob,
  type Unserved,
  type WaitingRequest,
} from '../rpc.ts';
import type { Connection } from '../store/ports.ts';
import { Commits } from './commits.ts';
import type { QueueEnv } from './env.ts';
import { Hearing } from './hearing.ts';
import { log } from './log.ts';
import { LongResults } from './long-results.ts';
import { OFFERED_COMMANDS, OFFERED_VIEWS, type Offered } from './offered.ts';
import { portsOf } from './ports.ts';
import { Relays } from './relays.ts';
import { reportToFleet } from './report-to-fleet.ts';
import { Resets } from './resets.ts';
import { givenSettings } from './settings.ts';
import { Sockets } from './sockets.ts';
import { Timer } from './timer.ts';
import { answerRequest } from './waiting-requests.ts';
import { WebhookSender } from './webhook-sender.ts';

type Commands = typeof COMMANDS;
type Asked<Name extends keyof QueueRpc> = Parameters<QueueRpc[Name]>;
type Answered<Name extends keyof QueueRpc> = ReturnType<QueueRpc[Name]>;

/**
 * The Durable Object around the rules: hands them storage, sockets, alarm and clock, and shares commits
 * (commits.ts); the runtime holds every reply and frame back until the commit is on disk.
 */
export class QueueObject extends objectThatOffers<QueueEnv, Offered>() implements QueueRpc {
  static {
    offer(QueueObject, OFFERED_VIEWS, async (object, name, asked) =>
      object.#queue.read(name, ...(asked as never)),
    );
    offer(QueueObject, OFFERED_COMMANDS, (object, name, asked) => object.#command(name, ...(asked as never)));
  }

  #queue!: Queue;
  #webhooks!: WebhookSender;
  readonly #commits = new Commits({
    beforeCommit: () => this.#queue.beforeCommit(),
    done: (hasCommitted) => {
      this.#queue.answerListeners();
      this.#fleet.changed();
      this.#timer.arm(this.#queue.nextTick());
      const { clock } = this.#queue;
      if (clock.standsStill(hasCommitted)) void this.#resets.forNewClock(clock, () => this.#roundTrip());
    },
    roundTrip: () => this.#roundTrip(),
    failed: (error, call) => this.#resets.afterError(error, call),
    failureOf: (call) => this.#resets.failureOf(call),
  });
  readonly #hearing = new Hearing(
    () => this.#queue,
    this.#commits,
    new LongResults({ files: () => this.env.FILE.getByName(this.#queueId), log }),
  );
  readonly #fleet = reportToFleet(this.env, this.#queueId, {
    share: () => this.#queue.read('share'),
    takeEnded: () => this.#queue.takeEnded(),
    awaitsStart: () => this.#queue.read('awaitsStart'),
    hearStarts: (starts) =>
      void this.#commits.atOnce(() => this.#queue.do('hearStarts', starts)).catch(() => {}),
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
    // Without a commit: a dispatch writes nothing, and the caller waits for its first token.
    ask: (job: WaitingRequest) =>
      this.#commits.answered<RequestAnswer | Unserved>(`request ${job.job_id}`, (answer) =>
        this.#queue.do('request', job, answer),
      ),
    tellFleet: () => this.#fleet.flush(),
    relays: this.#relays,
    queueId: () => this.#queueId,
  };

  constructor(ctx: DurableObjectState, env: QueueEnv) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING_TEXT, PONG_TEXT));
    ctx.blockConcurrencyWhile(async () => {
      // Read first: the rules move the alarm only if it is set for later.
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
    await this.#lost(connection);
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    await this.#lost(this.#sockets.connection(socket));
  }

  /** Once the rules have taken all that the worker has sent. */
  async #lost(connection: Connection): Promise<void> {
    await this.#hearing.heard(connection);
    await this.#commits.together(() => this.#queue.onClose(connection));
  }

  override alarm(): Promise<void> {
    return this.#alarm.fires(Date.now(), async (setFor) => {
      const webhooks = await this.#commits.together(() => {
        this.#queue.onAlarm(setFor);
        return this.#queue.webhooks.take();
      });
      // Not awaited: no lease expires while the alarm runs.
      this.ctx.waitUntil(this.#webhooks.send(webhooks));
    });
  }

  submit(...[jobs]: Asked<'submit'>): Answered<'submit'> {
    return this.#submission(jobs, (ids) => this.#queue.submit(jobs, ids));
  }

  submitAndListen(...[jobs, listener]: Asked<'submitAndListen'>): Answered<'submitAndListen'> {
    return this.#submission(jobs, (ids) => this.#queue.do('submitAndListen', jobs, ids, listener));
  }

  async #submission<T extends object>(jobs: SubmitJob[], submit: (ids: string[]) => T[]): Promise<T[]> {
    // For jobs without an id.
    const ids = jobs.map(() => crypto.randomUUID());
    const call = `submit ${jobs.map(({ id }) => id).join()}`;
    const answers = await this.#commits.submission(jobs.length, () => submit(ids), call);
    // The gateway asks the fleet object next.
    if (answers.some(isUnserved)) await this.#fleet.flush();
    return answers;
  }

  wait(...asked: Asked<'wait'>): Answered<'wait'> {
    return this.#commits.answered(`wait ${asked[0]}`, (answer) => this.#queue.wait('wait', ...asked, answer));
  }

  async follow(...asked: Asked<'follow'>): Answered<'follow'> {
    const job = await this.#commits.answered<ToldJob | null>(`follow ${asked[0]}`, (answer) =>
      this.#queue.wait('follow', ...asked, answer),
    );
    return job && { job, ...this.#queue.read('outputOf', job) };
  }

  listen(...asked: Asked<'listen'>): Answered<'listen'> {
    return this.#commits.answered<string[]>(`listen ${asked[0]}`, (answer) =>
      answer(this.#queue.do('listen', ...asked)),
    );
  }

  nextSettled(...asked: Asked<'nextSettled'>): Answered<'nextSettled'> {
    return this.#commits.answered(`nextSettled ${asked[0]}`, (answer) =>
      this.#queue.wait('nextSettled', ...asked, answer),
    );
  }

  leaveListener(...asked: Asked<'leaveListener'>): Promise<void> {
    return this.#commits.atOnce(() => this.#queue.do('leaveListener', ...asked));
  }

  async tellFleet(everything = false): Promise<void> {
    if (everything) this.#fleet.forget();
    await this.#fleet.flush();
  }

  cordon(...asked: Asked<'cordon'>): Answered<'cordon'> {
    return this.#command('cordon', ...asked).finally(() => this.#fleet.flush());
  }

  async metrics(): Answered<'metrics'> {
    return {
      ...this.#queue.read('metrics'),
      storage_bytes: this.ctx.storage.sql.databaseSize,
      relays: this.#relays?.metrics() ?? null,
    };
  }

  /** See Commits. */
  async noop(): Promise<void> {}

  async closeSockets(): Promise<void> {
    await this.#commits.together(() => this.#queue.writeUsage());
    this.#queue.leave();
    for (const socket of this.ctx.getWebSockets())
      this.#sockets.connection(socket).close(CLOSE.restarting, 'queue restarting');
    this.#resets.withProcess();
  }

  /** A command in the next commit. */
  #command<Name extends keyof Commands>(
    name: Name,
    ...asked: AskedOf<Commands, Name>
  ): Promise<ReturnType<Commands[Name]>> {
    const call = `${name} ${JSON.stringify(asked)}`;
    return this.#commits.together(() => this.#queue.do(name, ...asked), call);
  }

  #roundTrip(): Promise<void> {
    return (this.env.QUEUE.get(this.ctx.id) as unknown as QueueObject).noop();
  }

  get #queueId(): string {
    return this.ctx.id.name ?? 'vllm-queue';
  }
}
