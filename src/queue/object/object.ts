import { type Asked, expose } from '../../durable/calls.ts';
import type { CloseCode, HostedObject, HostSocket, ObjectHost } from '../../durable/host.ts';
import type { CanaryShare } from '../../fleet/rpc.ts';
import { idOf } from '../../protocol/ids.ts';
import { CLOSE, PING_TEXT, PONG_TEXT } from '../../protocol/index.ts';
import { WebhookSender } from '../../webhooks/sender.ts';
import {
  type COMMANDS,
  EXPOSED_AT_ONCE,
  EXPOSED_COMMANDS,
  EXPOSED_VIEWS,
  type ExposedCalls,
  WAITS,
} from '../calls.ts';
import { Queue } from '../queue.ts';
import {
  type HeardAnswer,
  isUnserved,
  type QueueMetrics,
  type RequestAnswer,
  type SubmitAnswer,
  type SubmitJob,
  type Unserved,
  type WaitingRequest,
  type WorkerDial,
} from '../rpc.ts';
import { type CallName, Commits, Resets } from './commits.ts';
import { givenSettings, portsOf, type QueueEnv } from './env.ts';
import { FilteredResults } from './filtered-results.ts';
import { type FleetReport, reportToFleet } from './fleet-report.ts';
import { Inbound, LongResults } from './inbound.ts';
import { type KeptOfWorker, Sockets } from './sockets.ts';
import { Timer } from './timer.ts';

type Commands = typeof COMMANDS;
type Settings = ConstructorParameters<typeof Queue>[1];

/** A base class whose methods the tables of calls become. */
const Exposing = class {} as new () => ExposedCalls;

/**
 * The object around the rules of a queue. It hands them storage, sockets, alarm and clock of its host, and shares
 * commits (commits.ts); the host holds every reply and frame back until the commit is on disk. Its methods are what
 * others may ask of a queue: arguments and answers are plain data, and mistakes of callers are answers, not exceptions.
 */
export class QueueObject extends Exposing implements HostedObject<WorkerDial, KeptOfWorker> {
  static {
    expose(QueueObject, EXPOSED_VIEWS, async (object, name, asked) =>
      object.#queue.read(name, ...(asked as never)),
    );
    expose(QueueObject, EXPOSED_COMMANDS, (object, name, asked) =>
      object.#command(name, ...(asked as never)),
    );
    expose(QueueObject, EXPOSED_AT_ONCE, (object, name, asked) =>
      object.#commits.atOnce(() => object.#queue.do(name, ...(asked as never)), nameOf(name, asked)),
    );
    expose(QueueObject, WAITS, (object, name, asked) =>
      object.#commits.answered(nameOf(name, asked), (answer) =>
        object.#queue.wait(name, ...([...asked, answer] as never)),
      ),
    );
  }

  readonly pings = { ping: PING_TEXT, pong: PONG_TEXT };
  readonly #host: ObjectHost<KeptOfWorker>;
  readonly #env: QueueEnv;
  readonly #queue: Queue;
  readonly #resets: Resets;
  readonly #commits: Commits;
  readonly #sockets: Sockets;
  readonly #inbound: Inbound;
  readonly #fleet: FleetReport;
  readonly #webhooks: WebhookSender;
  /** The timer for all that only memory knows of. */
  readonly #timer: Timer;

  static async create(host: ObjectHost<KeptOfWorker>, env: QueueEnv): Promise<QueueObject> {
    return new QueueObject(host, env, await givenSettings(env.settings, host.queueId));
  }

  private constructor(host: ObjectHost<KeptOfWorker>, env: QueueEnv, settings: Settings) {
    super();
    this.#host = host;
    this.#env = env;
    this.#resets = new Resets(host);
    this.#timer = new Timer(
      (at) => {
        const tick = () => this.#queue.onTick(at);
        const done = this.#queue.isWriteDue ? this.#commits.together(tick) : this.#commits.atOnce(tick);
        done.catch(() => {});
      },
      { now: () => host.now(), after: (ms, run) => host.after(ms, run) },
    );
    this.#commits = new Commits({
      beforeCommit: () => this.#queue.beforeCommit(),
      done: () => {
        this.#queue.answerListeners();
        this.#fleet.changed();
        this.#timer.arm(this.#queue.nextTick());
      },
      gathered: () => host.gathered(),
      failed: (error, call) => this.#resets.afterError(error, call),
      failureOf: (call) => this.#resets.failureOf(call),
    });
    const defer = (effect: () => void) => this.#commits.defer(effect);
    this.#fleet = reportToFleet(host, env.objects, {
      share: () => this.#queue.read('share'),
      takeEnded: () => this.#queue.takeEnded(),
      takeFailed: () => this.#queue.takeFailed(),
      takeDisplaced: () => this.#queue.takeDisplaced(),
      awaitsStart: () => this.#queue.read('awaitsStart'),
      takeStarts: (starts) =>
        void this.#commits.atOnce(() => this.#queue.do('takeStarts', starts)).catch(() => {}),
      takeAliases: async (aliases) => {
        if (this.#queue.read('differs', aliases))
          await this.#commits.together(() => this.#queue.do('takeAliases', aliases));
      },
    });
    this.#sockets = new Sockets(host, defer);
    const filtered = env.filters
      ? new FilteredResults({
          filters: env.filters,
          queueId: host.queueId,
          files: () => env.objects.files(host.queueId),
          payload: (id) => this.#queue.read('contents', id, 'payload', null),
          note: (id, text) => void this.#command('note', id, text).catch(() => {}),
          now: () => host.now(),
          after: (ms, run) => host.after(ms, run),
          log: host.log,
        })
      : null;
    this.#queue = new Queue(
      portsOf(host, {
        objects: env.objects,
        connection: (socket) => this.#sockets.connection(socket),
        defer,
        tellFleet: (event) => this.#fleet.tell(event),
        ...(filtered && {
          tellEnded: (job, { state, error }) => host.background(filtered.ended(job, { state, error })),
        }),
      }),
      settings,
    );
    const longResults = new LongResults({ files: () => env.objects.files(host.queueId), log: host.log });
    this.#inbound = new Inbound(this.#queue, this.#commits, longResults, filtered, (work) =>
      host.background(work),
    );
    this.#webhooks = new WebhookSender(env.settings, {
      outbox: this.#queue.webhooks,
      bodyOf: ({ about }) => this.#queue.read('webhookBody', about),
      commit: (work) => this.#commits.together(work),
      post: env.post,
      host,
    });
  }

  opened(socket: HostSocket<KeptOfWorker>, dial: WorkerDial): void {
    socket.save({ dial, session: null });
  }

  async message(socket: HostSocket<KeptOfWorker>, message: string | Uint8Array<ArrayBuffer>): Promise<void> {
    const heard = this.#sockets.heard(socket, message);
    if (heard !== null) await this.#inbound.receive(heard.connection, heard.text);
  }

  /** Tells the rules that a socket closed, once they have taken all that its worker has sent. */
  async closed(socket: HostSocket<KeptOfWorker>, code: CloseCode): Promise<void> {
    const connection = this.#sockets.connection(socket);
    await this.#inbound.received(connection);
    await this.#commits.together(() => this.#queue.onClose(connection, code === 'cut off'));
  }

  async alarm(setFor: number | null): Promise<void> {
    const webhooks = await this.#commits.together(() => {
      this.#queue.onAlarm(setFor);
      return this.#queue.webhooks.take();
    });
    // The sending is not awaited, since no lease expires while the alarm runs.
    this.#host.background(this.#webhooks.send(webhooks));
  }

  clockSetBack(): void {
    this.#queue.clockSetBack();
  }

  /** Asks for a worker for a caller that waits. The payload is not read after the call has been answered. */
  async request(job: WaitingRequest): Promise<RequestAnswer | Unserved> {
    // No commit is made: a dispatch writes nothing, and the caller waits for its first token.
    const said = await this.#commits.answered<RequestAnswer | Unserved>(`request ${job.job_id}`, (answer) =>
      this.#queue.do('request', job, answer),
    );
    // The gateway asks the fleet object next, so all news must have reached that object.
    if (isUnserved(said)) await this.#fleet.flush();
    return said;
  }

  /** Stores jobs, all in one commit; answers stand in the order of the jobs. */
  submit(jobs: SubmitJob[]): Promise<(SubmitAnswer | Unserved)[]> {
    return this.#submission(jobs, (ids) => this.#queue.submit(jobs, ids));
  }

  /** Stores jobs for a listener, which is told when they settle (`nextSettled`). */
  submitAndListen(jobs: SubmitJob[], listener: string): Promise<(HeardAnswer | Unserved)[]> {
    return this.#submission(jobs, (ids) => this.#queue.do('submitAndListen', jobs, ids, listener));
  }

  async #submission<T extends object>(jobs: SubmitJob[], submit: (ids: string[]) => T[]): Promise<T[]> {
    const ids = jobs.map(({ id }) => id ?? idOf('job', this.#host.queueId));
    const call = `submit ${jobs.map(({ id }) => id).join()}`;
    const answers = await this.#commits.submission(jobs.length, () => submit(ids), call);
    // The gateway asks the fleet object next, so all news must have reached that object.
    if (answers.some(isUnserved)) await this.#fleet.flush();
    return answers;
  }

  /** Reports all news to the fleet object, or everything again; resolves when the fleet object has it. */
  async tellFleet(everything = false): Promise<void> {
    if (everything) this.#fleet.forget();
    await this.#fleet.flush();
  }

  /** Cordons these workers, as `QueueTells` says. */
  cordon(workerIds: string[], shares: CanaryShare[] = []): Promise<Record<string, number>> {
    return this.#command('cordon', workerIds, shares).finally(() => this.#fleet.flush());
  }

  /** Returns all numbers of the queue, for machines. */
  async metrics(): Promise<QueueMetrics> {
    return {
      ...this.#queue.read('metrics'),
      storage_bytes: this.#host.databaseBytes(),
      relays: this.#env.relayMetrics?.() ?? null,
    };
  }

  /** Closes every socket with 1012 so that workers reconnect at once: the process is about to end. */
  async closeSockets(): Promise<void> {
    await this.#commits.together(() => this.#queue.writeUsage());
    this.#queue.leave();
    for (const socket of this.#host.sockets())
      this.#sockets.connection(socket).close(CLOSE.restarting, 'queue restarting');
  }

  /** Runs a command in the next commit. */
  #command<Name extends keyof Commands>(
    name: Name,
    ...asked: Asked<Commands[Name]>
  ): Promise<ReturnType<Commands[Name]>> {
    return this.#commits.together(() => this.#queue.do(name, ...asked), nameOf(name, asked));
  }
}

function nameOf(call: string, asked: readonly unknown[]): CallName {
  return `${call} ${JSON.stringify(asked)}`;
}
