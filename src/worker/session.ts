import {
  type Ack,
  CLOSE,
  FEATURES,
  type Instance,
  type Job,
  type JobRef,
  limits,
  parseJson,
  QueueFrame,
  type Registered,
  type Renewed,
  type WorkerFrame,
} from '../protocol/index.ts';
import type { Timer } from './clock.ts';
import { Line } from './line.ts';
import { BASE_PEER, type Peer, peerFrom } from './peer.ts';
import { refusalOf } from './refusal.ts';
import type { SocketClose } from './socket.ts';
import type { World } from './world.ts';

/**
 * The session with the queue.
 *
 * - `starting`   → `connecting` (start)
 * - `connecting` → `ready` (engine healthy, queue has answered), `paused` (reconnected, engine not healthy)
 * - `ready`      → `paused` (engine unhealthy), `connecting` (socket lost)
 * - `paused`     → `ready` (engine healthy again), `connecting` (socket lost)
 * - any of these → `draining` (no more jobs, for good; the socket may come and go for what is unfinished)
 * - any but `failed` → `stopped` (closed by us), `failed` (the queue refuses us)
 * - `stopped` and `failed` are final.
 */
export type SessionState = 'starting' | 'connecting' | 'ready' | 'paused' | 'draining' | 'stopped' | 'failed';

const LIVE = ['starting', 'connecting', 'ready', 'paused', 'draining'] as const;
const COMES_FROM: Record<SessionState, readonly SessionState[]> = {
  starting: [],
  connecting: ['starting', 'ready', 'paused'],
  ready: ['connecting', 'paused'],
  paused: ['connecting', 'ready'],
  draining: ['starting', 'connecting', 'ready', 'paused'],
  stopped: LIVE,
  failed: LIVE,
};

/** Why the loop looked again; each wake is logged with its reason. */
export const WAKE = {
  started: 'started',
  socketOpened: 'the socket opened',
  socketClosed: 'the socket closed',
  registered: 'the queue answered register',
  jobBeforeAnswer: 'a job came before an answer to register: a base queue',
  noAnswer: 'no answer to register: a base queue',
  engineHealthy: 'the engine is healthy',
  engineUnhealthy: 'the engine is unhealthy',
  drainAsked: 'drain was asked for',
} as const;
export type WakeReason = (typeof WAKE)[keyof typeof WAKE];

export interface SessionSettings {
  wsUrl: string;
  token: string | undefined;
  queueId: string;
  configId: string;
  workerId: string;
  capacity: number;
}

export interface SessionEvents {
  stateChanged(state: SessionState): void;
  /** Frames may be sent from now on; `registered` is null with a base queue. */
  connected(peer: Peer, registered: Registered | null): void;
  job(job: Job): void;
  revoked(jobId: string, reason: string): void;
  acknowledged(ack: Ack): void;
  renewed(renewed: Renewed): void;
  /** The queue refuses this worker for good; the session has failed. */
  refused(message: string): void;
  /** Running, or finished and not acknowledged. */
  heldJobs(): JobRef[];
}

/** A queue of ours that is slow to answer is not taken for a base queue; the connection is tried anew, ms. */
const KNOWN_QUEUE_ANSWERS_WITHIN_MS = 10_000;

/** What the queue was last told about dispatch. */
type Told = 'dispatch' | 'pause' | 'drain';

/** Owns the control socket: one loop compares what is with what should be, and acts on the difference. */
export class Session {
  readonly #world: World;
  readonly #settings: SessionSettings;
  readonly #events: SessionEvents;
  readonly #line: Line;
  readonly #unknownTypes = new Set<string>();
  #state: SessionState = 'starting';
  #instance: Instance;
  #engineHealthy = false;
  #draining = false;
  /** The last agreement; it outlives its connection, to tell how a queue now out of reach would take things. */
  #peer: Peer | null = null;
  /** `register` went out on this connection. */
  #registerSent = false;
  /** The agreement holds on this connection. */
  #connected = false;
  #everConnected = false;
  #answerTimer: Timer;
  #told: Told = 'dispatch';
  #looping = false;
  #lookAgain = false;

  constructor(world: World, settings: SessionSettings, instance: Instance, events: SessionEvents) {
    this.#world = world;
    this.#settings = settings;
    this.#instance = instance;
    this.#events = events;
    this.#line = new Line(world, 'control', {
      opened: () => this.#wake(WAKE.socketOpened),
      text: (text) => this.#receive(text),
      binary: () => world.log.warn({}, 'the queue sent a binary frame on the control socket; ignored'),
      closed: (close) => this.#closed(close),
    });
  }

  get state(): SessionState {
    return this.#state;
  }

  get peer(): Peer | null {
    return this.#peer;
  }

  get isConnected(): boolean {
    return this.#connected;
  }

  get isEngineHealthy(): boolean {
    return this.#engineHealthy;
  }

  start(): void {
    this.#wake(WAKE.started);
  }

  /** @param models every name the engine answers to */
  engineHealthy(models: string[]): void {
    this.#engineHealthy = true;
    this.#instance = { ...this.#instance, models };
    this.#wake(WAKE.engineHealthy);
  }

  engineUnhealthy(): void {
    this.#engineHealthy = false;
    this.#wake(WAKE.engineUnhealthy);
  }

  /** No more jobs, for good. The connection stays for results. */
  drain(): void {
    this.#draining = true;
    this.#wake(WAKE.drainAsked);
  }

  /** Resolves when everything sent has left. */
  async stop(): Promise<void> {
    if (this.#isOver()) return;
    this.#endConnection();
    this.#enter('stopped');
    await this.#line.close(CLOSE.done, 'worker stopped');
  }

  /** False when nothing is agreed on a connection at the moment. */
  send(frame: WorkerFrame): boolean {
    return this.sendText(JSON.stringify(frame));
  }

  sendText(text: string): boolean {
    return this.#connected && this.#line.send(text);
  }

  #wake(reason: WakeReason): void {
    this.#world.log.debug({ reason, state: this.#state }, 'session woken');
    this.#lookAgain = true;
    if (this.#looping) return;
    this.#looping = true;
    try {
      while (this.#lookAgain && !this.#isOver()) {
        this.#lookAgain = false;
        this.#look();
      }
    } finally {
      this.#looping = false;
    }
  }

  /** One round of the loop. */
  #look(): void {
    if (this.#line.state === 'idle') this.#line.open({ url: this.#url(), token: this.#settings.token });
    if (this.#line.isOpen && !this.#registerSent && this.#mayRegister()) this.#register();
    if (this.#connected) this.#tell();
    this.#enter(this.#due());
  }

  #due(): SessionState {
    if (this.#draining) return 'draining';
    if (!this.#connected) return 'connecting';
    return this.#engineHealthy ? 'ready' : 'paused';
  }

  /** The first offer waits for the engine; a reconnect does not, since running jobs hang on it. */
  #mayRegister(): boolean {
    return this.#everConnected || (this.#engineHealthy && !this.#draining);
  }

  #register(): void {
    this.#registerSent = true;
    const { workerId, configId, capacity } = this.#settings;
    const frame: WorkerFrame = {
      type: 'register',
      worker_id: workerId,
      config_id: configId,
      capacity: this.#draining ? 0 : capacity,
      protocol: 1,
      features: [...FEATURES],
      instance: this.#instance,
      jobs: this.#events.heldJobs(),
    };
    this.#line.send(JSON.stringify(frame));
    const known = this.#peer?.kind === 'extended';
    this.#answerTimer = this.#world.clock.setTimeout(
      () => {
        if (known) this.#line.drop('no answer to register');
        else this.#agree(BASE_PEER, null, WAKE.noAnswer);
      },
      known ? KNOWN_QUEUE_ANSWERS_WITHIN_MS : limits.REGISTERED_WITHIN_MS,
    );
  }

  #agree(peer: Peer, registered: Registered | null, reason: WakeReason): void {
    this.#world.clock.clearTimeout(this.#answerTimer);
    this.#peer = peer;
    this.#connected = true;
    this.#everConnected = true;
    this.#line.proven();
    if (peer.kind === 'extended') this.#line.useTextPings();
    this.#tell();
    this.#events.connected(peer, registered);
    this.#wake(reason);
  }

  /** Brings the queue's idea of us in line. */
  #tell(): void {
    const wanted: Told = this.#draining ? 'drain' : this.#engineHealthy ? 'dispatch' : 'pause';
    if (wanted === this.#told || this.#told === 'drain') return;
    this.#told = wanted;
    this.send({ type: wanted === 'dispatch' ? 'resume' : wanted });
  }

  #receive(text: string): void {
    if (!this.#registerSent) return;
    const parsed = parseJson(QueueFrame, text);
    if (parsed.ok) this.#handle(parsed.value);
    else if (!parsed.unknownType) {
      this.#world.log.warn(
        { problem: parsed.message },
        'the queue sent a frame that cannot be read; ignored',
      );
    } else if (!this.#unknownTypes.has(parsed.unknownType)) {
      this.#unknownTypes.add(parsed.unknownType);
      this.#world.log.info({ type: parsed.unknownType }, 'the queue sends frames of a type unknown here');
    }
  }

  #handle(frame: QueueFrame): void {
    switch (frame.type) {
      case 'registered':
        return this.#agree(peerFrom(frame, this.#url()), frame, WAKE.registered);
      case 'job':
        if (!this.#connected) this.#agree(BASE_PEER, null, WAKE.jobBeforeAnswer);
        return this.#events.job(frame);
      case 'job_revoked':
        return this.#events.revoked(frame.job_id, frame.reason);
      case 'ack':
        return this.#events.acknowledged(frame);
      case 'renewed':
        return this.#events.renewed(frame);
      case 'error':
        return this.#world.log.warn(
          { problem: frame.message },
          'the queue did not understand a frame of ours',
        );
      case 'job_result_ref':
        // The base acknowledgement; with a base queue sent means settled already.
        return;
    }
  }

  #closed(close: SocketClose): 'redial' | 'stop' {
    this.#endConnection();
    const refusal = refusalOf(close, this.#settings);
    if (refusal) {
      this.#enter('failed');
      this.#events.refused(refusal);
      return 'stop';
    }
    this.#wake(WAKE.socketClosed);
    return 'redial';
  }

  #endConnection(): void {
    this.#world.clock.clearTimeout(this.#answerTimer);
    this.#registerSent = false;
    this.#connected = false;
    this.#told = 'dispatch';
  }

  #url(): string {
    const { wsUrl, queueId, configId, workerId } = this.#settings;
    const query = new URLSearchParams({ queue_id: queueId, config_id: configId, worker_id: workerId });
    return `${wsUrl}/ws?${query}`;
  }

  #isOver(): boolean {
    return this.#state === 'stopped' || this.#state === 'failed';
  }

  #enter(state: SessionState): void {
    if (state === this.#state) return;
    if (!COMES_FROM[state].includes(this.#state)) throw new Error(`session: ${this.#state} → ${state}`);
    this.#world.log.info({ from: this.#state, to: state }, `session ${state}`);
    this.#state = state;
    this.#events.stateChanged(state);
  }
}
