import { isDeepStrictEqual } from 'node:util';
import {
  bounds,
  CLOSE,
  type Instance,
  type ModelCard,
  PROTOCOL,
  type QueueFrame,
  type Registered,
  type WorkerFrame,
} from '../../protocol/index.ts';
import type { Timer } from '../clock.ts';
import type { Ports } from '../ports.ts';
import { FrameParser, GatheredFrames } from './frames.ts';
import { BASE_PEER, isExtended, type Peer, peerFrom } from './peer.ts';
import { ReconnectingSocket } from './reconnecting-socket.ts';
import {
  COMES_FROM,
  type SessionEvents,
  type SessionSettings,
  type SessionState,
  WAKE,
  type WakeReason,
} from './session-state.ts';
import { denialOf, type SocketClose } from './socket.ts';

/** A known extended queue may take this long to answer, ms, before it is treated as a base queue. */
const KNOWN_QUEUE_ANSWERS_WITHIN_MS = 10_000;

/** The last thing that the queue was told about dispatch. */
type Told = 'dispatch' | 'pause' | 'drain' | 'preempted';

/** Owns the control socket: one loop compares the present state with the wanted state, and acts on the difference. */
export class Session {
  readonly #ports: Ports;
  readonly #settings: SessionSettings;
  readonly #events: SessionEvents;
  readonly #socket: ReconnectingSocket;
  readonly #settlements: GatheredFrames;
  readonly #parser: FrameParser;
  #state: SessionState = 'starting';
  #instance: Instance;
  #started = false;
  #engineHealthy = false;
  #underPressure = false;
  #draining = false;
  #preempted = false;
  /**
   * The last agreement with the queue. It outlives its connection, to tell which frames a queue out of reach would
   * accept.
   */
  #peer: Peer | null = null;
  /** Whether `register` was sent on this connection. */
  #registerSent = false;
  /** Whether the agreement was made on this connection. */
  #connected = false;
  #everConnected = false;
  /** The number of slots that the last `register` offered. */
  #offered = 0;
  #everOffered = false;
  /** The models and names that the last `register` reported of the engine. */
  #registered: Pick<Instance, 'model_identity' | 'models'> = {};
  #answerTimer: Timer;
  #told: Told = 'dispatch';
  #looping = false;
  #lookAgain = false;

  constructor(ports: Ports, settings: SessionSettings, instance: Instance, events: SessionEvents) {
    this.#ports = ports;
    this.#settings = settings;
    this.#instance = instance;
    this.#events = events;
    this.#socket = new ReconnectingSocket(ports, 'control', {
      opened: () => this.#wake(WAKE.socketOpened),
      text: (text) => this.#receive(text),
      binary: (data) => this.#receive(data),
      frame: (frame) => {
        if (this.#registerSent) this.#handle(frame);
      },
      closed: (close) => this.#closed(close),
    });
    this.#parser = new FrameParser(ports.log);
    this.#settlements = new GatheredFrames(ports.clock, (message) => this.#socket.send(message));
    ports.adapters?.listen((state) => isExtended(this.#peer) && this.send({ type: 'adapters', ...state }));
  }

  get state(): SessionState {
    return this.#state;
  }

  get peer(): Peer | null {
    return this.#peer;
  }

  /** Whether a connection to the queue is open, whatever has been sent on it. */
  get hasQueue(): boolean {
    return this.#socket.isOpen;
  }

  /** Starts to dial. */
  start(): void {
    this.#started = true;
    this.#wake(WAKE.started);
  }

  /**
   * Notes that the engine is healthy. @param models every name that the engine answers to @param cards the engine's
   * cards of its models @param identity what the engine serves; null: unknown
   */
  engineHealthy(models: string[], cards: ModelCard[], identity: string | null): void {
    this.#engineHealthy = true;
    const { model_cards, model_identity, ...rest } = this.#instance;
    this.#instance = {
      ...rest,
      models,
      ...(cards.length > 0 && { model_cards: cards }),
      ...(identity !== null && { model_identity: identity }),
    };
    this.#wake(WAKE.engineHealthy);
  }

  engineUnhealthy(): void {
    this.#engineHealthy = false;
    this.#wake(WAKE.engineUnhealthy);
  }

  /** Stops asking the queue for jobs while the engine has a backlog. */
  pressureChanged(isUnderPressure: boolean): void {
    this.#underPressure = isUnderPressure;
    this.#wake(WAKE.pressureChanged);
  }

  /** Runs the loop again, since `hasEarlyResults` may be true now. */
  resultsFound(): void {
    this.#wake(WAKE.resultsFound);
  }

  /**
   * Takes no more jobs, for good. The connection stays open for results.
   * @param isPreempted whether the machine is being taken away
   */
  drain(isPreempted: boolean): void {
    this.#draining = true;
    this.#preempted ||= isPreempted;
    this.#wake(WAKE.drainAsked);
  }

  /** Closes the connection once everything sent has left. */
  async stop(withinMs?: number): Promise<void> {
    if (this.#isOver()) return;
    this.#settlements.send();
    this.#endConnection();
    this.#enter('stopped');
    await this.#socket.close(CLOSE.done, 'worker stopped', withinMs);
  }

  send(frame: WorkerFrame): boolean {
    this.#settlements.send();
    return this.#connected && this.#socket.send(JSON.stringify(frame));
  }

  /** Sends a settlement. @param text the frame, sent again if this connection ends before it is acknowledged */
  sendSettlement(text: string): boolean {
    if (!this.#connected || !this.#socket.isOpen) return false;
    if (!isExtended(this.#peer)) return this.#socket.send(text);
    this.#settlements.add(text);
    return true;
  }

  #wake(reason: WakeReason): void {
    this.#ports.log.debug({ reason, state: this.#state }, 'session woken');
    this.#lookAgain = true;
    if (this.#looping || !this.#started) return;
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

  /** Runs one round of the loop. */
  #look(): void {
    if (this.#socket.state === 'idle') this.#socket.open({ url: this.#url(), token: this.#settings.token });
    if (this.#socket.isOpen && !this.#registerSent && this.#mayRegister()) this.#register();
    if (this.#connected && (this.#offered < this.#capacity() || this.#servesOther())) this.#offer();
    if (this.#connected) this.#tell();
    this.#enter(this.#due());
  }

  #due(): SessionState {
    if (this.#draining) return 'draining';
    if (!this.#connected) return 'connecting';
    return this.#engineHealthy ? 'ready' : 'paused';
  }

  /**
   * Tells whether `register` may be sent: the first one waits for the engine, unless there are results of an earlier
   * process; a reconnect does not wait.
   */
  #mayRegister(): boolean {
    if (this.#everConnected || this.#events.hasEarlyResults()) return true;
    return this.#engineHealthy && !this.#draining;
  }

  /**
   * Returns the number of slots to offer: none before the engine was first healthy, and none that a drain would take
   * back.
   */
  #capacity(): number {
    if (this.#draining || !(this.#engineHealthy || this.#everOffered)) return 0;
    return this.#settings.capacity;
  }

  /**
   * Tells whether the engine serves something else, or by other names, than the queue was told: whoever runs an engine
   * of one's own may start another one at its address, or have it serve more models.
   */
  #servesOther(): boolean {
    const [told, now] = [this.#registered, this.#instance];
    const isOther = told.model_identity !== undefined && told.model_identity !== now.model_identity;
    const isNamedOtherwise = told.models !== undefined && !isDeepStrictEqual(told.models, now.models);
    return (isOther || isNamedOtherwise) && this.#capacity() > 0 && this.#peer?.reregisters === true;
  }

  /** Offers more slots than before, or another model: an extended queue accepts a second `register`, a base queue only the first. */
  #offer(): void {
    if (!this.#peer?.reregisters) return this.#socket.drop('offering slots takes a new connection');
    this.#connected = false;
    this.#told = 'dispatch';
    this.#register();
  }

  #register(): void {
    this.#settlements.send();
    this.#registerSent = true;
    this.#registered = this.#instance;
    const { workerId, configId } = this.#settings;
    const capacity = this.#capacity();
    this.#offered = capacity;
    this.#everOffered ||= capacity > 0;
    const frame: WorkerFrame = {
      type: 'register',
      worker_id: workerId,
      config_id: configId,
      capacity,
      protocol: PROTOCOL,
      instance: this.#instance,
      jobs: this.#events.heldJobs(),
      ...(this.#ports.adapters && { adapters: this.#ports.adapters.state }),
    };
    this.#socket.send(JSON.stringify(frame));
    // Results that an earlier process left come from an extended queue, so this queue is treated as extended until it
    // turns out to be a base queue.
    const known = this.#peer?.answersRegister ?? false;
    const expected = known || (this.#peer === null && this.#events.hasEarlyResults());
    this.#answerTimer = this.#ports.clock.setTimeout(
      () => {
        if (known) this.#socket.drop('no answer to register');
        else this.#agree(BASE_PEER, null, WAKE.noAnswer);
      },
      expected ? KNOWN_QUEUE_ANSWERS_WITHIN_MS : bounds.REGISTERED_WITHIN_MS,
    );
  }

  #agree(peer: Peer, registered: Registered | null, reason: WakeReason): void {
    this.#ports.clock.clearTimeout(this.#answerTimer);
    this.#peer = peer;
    this.#connected = true;
    this.#everConnected = true;
    this.#socket.proven();
    if (peer.answersTextPings) this.#socket.useTextPings(peer.pingSeconds);
    this.#tell();
    this.#events.connected(peer, registered);
    this.#wake(reason);
  }

  /** Tells the queue whether it may dispatch jobs, unless it knows already. */
  #tell(): void {
    const mayDispatch = this.#engineHealthy && !this.#underPressure;
    const drain: Told = this.#preempted && isExtended(this.#peer) ? 'preempted' : 'drain';
    const wanted: Told = this.#draining ? drain : mayDispatch ? 'dispatch' : 'pause';
    if (wanted === this.#told) return;
    this.#told = wanted;
    if (wanted === 'preempted') this.send({ type: 'drain', reason: 'preempted' });
    else this.send({ type: wanted === 'dispatch' ? 'resume' : wanted });
  }

  #receive(data: string | Uint8Array): void {
    if (!this.#registerSent) return;
    // Handling a frame may end the connection.
    for (const frame of this.#parser.parse(data)) if (this.#registerSent) this.#handle(frame);
  }

  #handle(frame: QueueFrame): void {
    switch (frame.type) {
      case 'registered':
        return this.#agree(peerFrom(frame, this.#url(), this.#settings.queueProfile), frame, WAKE.registered);
      case 'job':
        if (!this.#connected) this.#agree(BASE_PEER, null, WAKE.jobBeforeAnswer);
        return this.#events.job(frame);
      case 'job_revoked':
        this.#events.revoked(frame.job_id, frame.reason);
        // The queue gives no jobs to a worker that let a lease expire until that worker sends it something.
        if (frame.reason === 'lease_lost' && this.#told === 'dispatch') this.send({ type: 'resume' });
        return;
      case 'ack':
        return this.#events.acknowledged(frame);
      case 'renewed':
        return this.#events.renewed(frame);
      case 'error':
        return this.#ports.log.warn(
          { problem: frame.message },
          'the queue did not understand a frame of this worker',
        );
      case 'job_result_ref':
        // This frame is the base acknowledgement; with a base queue sent means settled already.
        return;
      default:
        frame satisfies never;
    }
  }

  #closed(close: SocketClose): 'redial' | 'stop' {
    this.#endConnection();
    const denial = denialOf(close, this.#settings);
    if (denial) {
      this.#enter('failed');
      this.#events.denied(denial);
      return 'stop';
    }
    this.#wake(WAKE.socketClosed);
    return 'redial';
  }

  #endConnection(): void {
    this.#ports.clock.clearTimeout(this.#answerTimer);
    this.#registerSent = false;
    this.#connected = false;
    this.#settlements.forget();
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
    this.#ports.log.info({ from: this.#state, to: state }, `session ${state}`);
    this.#state = state;
    this.#events.stateChanged(state);
  }
}
