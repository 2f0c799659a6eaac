import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { type BrokenReason, parseFrames, unpack, WorkerFrame } from '../../src/protocol/index.ts';
import { Queue } from '../../src/queue/queue.ts';
import {
  type FileTicket,
  isUnserved,
  type RequestAnswer,
  type SubmitAnswer,
  type SubmitJob,
  type Unserved,
  type WaitingRequest,
  type WorkerToken,
} from '../../src/queue/rpc.ts';
import type { Connection, Ports, Row, Session, SqlValue } from '../../src/queue/store/ports.ts';
import type { GivenSettings, QueueSettings } from '../../src/settings/queue-settings.ts';
import { FleetHarness } from './fleet-harness.ts';

/** One control socket as the queue sees it, with the frames that were sent to it. */
export class FakeConnection implements Connection {
  readonly id: string;
  readonly origin = 'https://queue.test';
  readonly token: WorkerToken | null;
  readonly sent: Record<string, unknown>[] = [];
  binaryMessages = 0;
  closed: { code: number; reason: string } | null = null;
  /** Epoch ms of its last sign; null: it pings all the time, as a live worker does. */
  heardMs: number | null = null;
  readonly #now: () => number;
  #session: Session | null = null;

  constructor(id: string, now: () => number, token: WorkerToken | null) {
    this.id = id;
    this.token = token;
    this.#now = now;
  }
  load(): Session | null {
    return this.#session;
  }
  save(session: Session | null): void {
    this.#session = structuredClone(session);
  }
  lastHeardMs(): number {
    return this.heardMs ?? this.#now();
  }
  /** From now on nothing comes from it, and nobody is told. */
  goSilent(): void {
    this.heardMs = this.#now();
  }
  send(frame: object): void {
    this.sendJob(JSON.stringify(frame));
  }
  sendJob(frame: string | Uint8Array<ArrayBuffer>): void {
    if (typeof frame !== 'string') this.binaryMessages += 1;
    const packed = typeof frame === 'string' ? null : unpack(frame);
    const text = packed?.head ?? (typeof frame === 'string' ? frame : new TextDecoder().decode(frame));
    if (this.closed) return;
    this.sent.push(JSON.parse(text));
  }
  close(code: number, reason: string): void {
    this.closed ??= { code, reason };
  }
  /** Returns the frames of one type that were sent, newest last. */
  frames(type: string): Record<string, unknown>[] {
    return this.sent.filter((frame) => frame.type === type);
  }
  lastJob(): { job_id: string; fence_token: number; [field: string]: unknown } {
    const job = this.frames('job').at(-1);
    if (!job) throw new Error(`no job was sent to ${this.id}`);
    return job as never;
  }
}

/** Parses the address of a payload or a result, relative or whole. */
export function ticketOf(address: unknown): FileTicket {
  const { pathname, searchParams } = new URL(String(address), 'https://queue.test');
  return {
    job_id: decodeURIComponent(pathname.split('/')[2] as string),
    fence_token: Number(searchParams.get('fence_token')),
    key: searchParams.get('key') ?? '',
  };
}

/** The real queue rules over real SQLite in memory, with a clock and sockets that the test moves by hand. */
export class QueueHarness {
  nowMs = Date.UTC(2026, 0, 1);
  alarmAt: number | null = null;
  /** Epoch ms; the alarm that is set does not fire before. */
  #alarmHeldUntil = 0;
  /** Workers whose answer sockets were closed. */
  readonly closedAnswers: string[] = [];
  readonly broken: { worker: string; stream: number; reason: BrokenReason; where?: 'any home' }[] = [];
  readonly logLines: { message: string; fields: Record<string, unknown> | undefined }[] = [];
  readonly connections = new Set<FakeConnection>();
  readonly database: DatabaseSync;
  /** The fleet object of this queue, on the same clock. */
  readonly fleet = new FleetHarness({}, () => this.nowMs);
  queue: Queue;
  /** The number of statements that were run so far. */
  statements = 0;
  readonly #settings: GivenSettings;
  readonly #statements = new Map<string, StatementSync>();
  #next = 0;

  /** @param database of an earlier queue */
  constructor(settings: Partial<QueueSettings> = {}, database = new DatabaseSync(':memory:')) {
    this.database = database;
    this.#settings = { queue_id: 'q', lease_seconds: 30, reconnect_grace_seconds: 10, ...settings };
    this.queue = new Queue(this.#ports(), this.#settings);
  }

  connect(name = `connection-${++this.#next}`, token: WorkerToken | null = null): FakeConnection {
    const connection = new FakeConnection(name, () => this.nowMs, token);
    this.connections.add(connection);
    return connection;
  }

  /** An extended worker, registered. */
  worker(id: string, more: Record<string, unknown> = {}, token: WorkerToken | null = null): FakeConnection {
    const connection = this.connect(`${id}-${++this.#next}`, token);
    const { instance, ...rest } = more;
    this.say(connection, {
      type: 'register',
      worker_id: id,
      config_id: 'cfg',
      capacity: 1,
      protocol: 1,
      instance: { id, models: ['tiny'], boot_id: `${id}-boot`, ...(instance as object) },
      ...rest,
    });
    return connection;
  }

  /** A worker that speaks only the base protocol. */
  baseWorker(id: string, configId = 'cfg', capacity = 1): FakeConnection {
    const connection = this.connect(`${id}-${++this.#next}`);
    this.say(connection, { type: 'register', worker_id: id, config_id: configId, capacity });
    return connection;
  }

  say(connection: FakeConnection, frame: unknown): void {
    this.sayUncommitted(connection, typeof frame === 'string' ? frame : JSON.stringify(frame));
    this.queue.beforeCommit();
  }

  /** More is to be in its commit. */
  sayUncommitted(connection: FakeConnection, text: string): void {
    for (const frame of parseFrames(WorkerFrame, text, 'result'))
      this.queue.onFrame(connection, frame, () => `session-${++this.#next}`);
  }

  drop(connection: FakeConnection, isCutOff = false): void {
    this.connections.delete(connection);
    this.queue.onClose(connection, isCutOff);
    this.queue.beforeCommit();
  }

  /** Submits as the gateway does: a job that no connected worker serves goes to a pool that the fleet knows for it. */
  submit(...given: Partial<SubmitJob>[]): SubmitAnswer[] {
    const jobs = given.map(
      (job): SubmitJob => ({
        job_type: 'chat_completion',
        payload: '{"messages":[]}',
        config_id: 'cfg',
        priority: 0,
        max_attempts: 3,
        ...job,
      }),
    );
    const ids = jobs.map(() => `job-${++this.#next}`);
    const answers = this.queue.submit(jobs, ids).map((answer, index) => {
      if (!isUnserved(answer)) return answer;
      const job = jobs[index] as SubmitJob;
      const known = answer.models.map((model) => [model, this.fleet.choose(model)] as const);
      return this.queue.submit([{ ...job, known }], [ids[index] as string])[0] as SubmitAnswer;
    });
    this.queue.beforeCommit();
    return answers;
  }

  /** Submits one job and gives its id. */
  job(job: Partial<SubmitJob> = {}): string {
    const [answer] = this.submit(job);
    if (!answer?.ok) throw new Error(JSON.stringify(answer));
    return answer.job.id;
  }

  /** Requests a worker as the gateway does. */
  request(asked: Partial<WaitingRequest> = {}): RequestAnswer[] {
    const answers: RequestAnswer[] = [];
    const request = {
      job_id: `request-${++this.#next}`,
      job_type: 'engine_request',
      payload: '{"method":"POST","path":"/v1/chat/completions","body":"{\\"messages\\":[]}"}',
      model: 'tiny',
      priority: 0,
      wait_for_worker_ms: 0,
      wait_for_slot_ms: 60_000,
      ...asked,
    };
    let unknown: Unserved['models'] = [];
    const take = (answer: RequestAnswer | Unserved) => {
      if (isUnserved(answer)) unknown = answer.models;
      else answers.push(answer);
    };
    this.queue.do('request', request, take);
    const known = unknown.map((model) => [model, this.fleet.choose(model)] as const);
    if (unknown.length > 0) this.queue.do('request', { ...request, known }, take);
    return answers;
  }

  state(id: string): string {
    return this.queue.read('get', id, null)?.state ?? 'missing';
  }

  /**
   * The clock is set forward. The runtime's alarm counts on one that nobody sets: an alarm that was set before fires as
   * much later.
   */
  setForward(seconds: number): void {
    this.nowMs += seconds * 1000;
    if (this.alarmAt !== null) this.#alarmHeldUntil = this.alarmAt + seconds * 1000;
  }

  /** Epoch ms; null: no alarm is set. */
  get #alarmFiresAt(): number | null {
    return this.alarmAt === null ? null : Math.max(this.alarmAt, this.#alarmHeldUntil);
  }

  /** Moves the clock, running every alarm and tick that falls due on the way. */
  advance(seconds: number): void {
    const until = this.nowMs + seconds * 1000;
    for (;;) {
      const tick = this.queue.nextTick();
      const due = [this.#alarmFiresAt, tick, this.fleet.alarmAt].filter((time) => time !== null);
      const next = Math.min(...due, until);
      this.nowMs = Math.max(this.nowMs, next);
      this.fleet.alarmIfDue();
      const firesAt = this.#alarmFiresAt;
      if (firesAt !== null && firesAt <= this.nowMs) {
        const setFor = this.alarmAt;
        this.alarmAt = null;
        this.queue.onAlarm(setFor);
        this.queue.beforeCommit();
      } else if (tick !== null && tick <= this.nowMs) {
        this.queue.onTick(tick);
        this.queue.beforeCommit();
      }
      if (this.nowMs >= until && (this.#alarmFiresAt ?? until + 1) > until) break;
    }
    this.queue.onTick(this.nowMs);
  }

  /** The process ends and starts again on its disk: memory and sockets are gone. */
  restart(): void {
    this.connections.clear();
    this.queue = new Queue(this.#ports(), this.#settings);
  }

  /** The object is evicted and comes back: memory is gone, sockets and disk stay. */
  hibernate(): void {
    this.queue = new Queue(this.#ports(), this.#settings);
  }

  #statement(query: string): StatementSync {
    let statement = this.#statements.get(query);
    if (!statement) {
      statement = this.database.prepare(query);
      this.#statements.set(query, statement);
    }
    return statement;
  }

  #ports(): Ports {
    return {
      sql: {
        exec: (query: string, ...bindings: SqlValue[]) => {
          this.statements += 1;
          return this.#statement(query).all(...bindings) as unknown as Row[];
        },
      },
      alarm: {
        get: () => this.alarmAt,
        set: (at) => {
          this.alarmAt = at;
          this.#alarmHeldUntil = 0;
        },
        clear: () => {
          this.alarmAt = null;
        },
      },
      undoable: (work) => {
        work();
        return null;
      },
      now: () => this.nowMs,
      random: () => 0.5,
      connections: () => [...this.connections],
      breakStream: (worker, stream, reason, where) =>
        this.broken.push({ worker, stream, reason, ...(where && { where }) }),
      closeAnswers: (worker) => this.closedAnswers.push(worker),
      tellFleet: (event) => this.fleet.rules.record([event]),
      log: (_, message, fields) => this.logLines.push({ message, fields }),
    };
  }
}
