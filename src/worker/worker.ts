import { failureExitCode } from '../engine/kinds/failures.ts';
import type { FailureKind } from '../engine/kinds/report.ts';
import { EXIT } from '../process/exit-codes.ts';
import { endOfStep } from '../process/way-down.ts';
import type { Instance, ModelCard } from '../protocol/index.ts';
import { Answers, type AnswersSettings } from './answers/answers.ts';
import type { FileAccessSettings } from './files/file-access.ts';
import { Drain } from './jobs/drain.ts';
import { Jobs } from './jobs/jobs.ts';
import type { Ports } from './ports.ts';
import type { RunpodSettings } from './run/runpod-input.ts';
import { takesFields } from './run/send-request.ts';
import { isExtended } from './session/peer.ts';
import { Session } from './session/session.ts';
import type { SessionSettings, SessionState } from './session/session-state.ts';
import { type Beat, type PostHeartbeat, wordsOf } from './telemetry/heartbeat.ts';
import { type BackpressureSettings, LoadWatch } from './telemetry/load-watch.ts';
import type { EngineStep } from './telemetry/tally.ts';
import { WorkerStatus } from './telemetry/worker-status.ts';

export interface WorkerSettings extends SessionSettings, FileAccessSettings, AnswersSettings {
  instance: Instance;
  renewAfterSeconds: number;
  graceSeconds: number;
  heartbeatIntervalSeconds: number;
  /** When the container was created, epoch ms; left out: not known. */
  createdAtMs?: number | undefined;
  /** The settings of backpressure; null: jobs are taken whatever the engine's gauges say. */
  backpressure: BackpressureSettings | null;
  /** Whether answers are moved: the engine continues from token ids. */
  moves?: boolean;
  /** The form of answers to `runpod` jobs; left out: that of RunPod's worker without variables. */
  runpod?: RunpodSettings;
}

export interface WorkerEvents {
  /** Called when slots are offered: the engine is healthy and the queue has answered. */
  ready(models: string[]): void;
  /** Called when a job failed like jobs of a dying engine: the engine should be probed before more jobs arrive. */
  engineDoubted(message: string): void;
  /** Called when everything is closed; the process should end with this code. */
  ended(exitCode: number): void;
}

/**
 * A whole pull worker: session, jobs, answers, heartbeats and its end. It is told what happens to the engine and to the
 * process, and does I/O only through its ports.
 */
export class Worker {
  readonly #ports: Ports;
  readonly #settings: WorkerSettings;
  readonly #events: WorkerEvents;
  readonly #session: Session;
  readonly #answers: Answers;
  readonly #jobs: Jobs;
  /** Everything that is reported of this worker. */
  readonly status: WorkerStatus;
  readonly #load: LoadWatch;
  #models: string[] = [];
  #drain: Drain | null = null;
  #preempted = false;
  #exitCode: number = EXIT.ok;
  #lastWords: Beat = { status: 'stopping' };
  #isLoading = false;
  #isEnding = false;

  /** @param post posts heartbeats; null: none are wanted */
  constructor(ports: Ports, settings: WorkerSettings, post: PostHeartbeat | null, events: WorkerEvents) {
    this.#ports = ports;
    this.#settings = settings;
    this.#events = events;
    this.#session = this.#createSession();
    this.#answers = new Answers(ports, settings, {
      changed: () => this.#drain?.check(),
    });
    this.status = this.#createStatus(post);
    this.#jobs = new Jobs(
      {
        ...ports,
        queue: this.#session,
        answers: this.#answers,
        observer: this.status.observer,
        engineDoubted: events.engineDoubted,
        changed: () => this.#drain?.check(),
      },
      settings,
    );
    this.#jobs.closedFor = 'engine_restarting';
    this.#load = this.#createLoadWatch();
  }

  get state(): SessionState {
    return this.#session.state;
  }

  /** Whether a connection to the queue is open. */
  get hasQueue(): boolean {
    return this.#session.hasQueue;
  }

  /** The number of jobs in slots. */
  get running(): number {
    return this.#jobs.held.running;
  }

  /** The id of the oldest job in a slot. */
  get currentJobId(): string | undefined {
    return this.#jobs.held.allRunning()[0]?.job.job_id;
  }

  /** The number of settlements that the queue has not acknowledged. */
  get unacknowledged(): number {
    return this.#jobs.held.settled;
  }

  /** Dials early, so that only the offer is left to make when the engine is healthy. */
  start(): void {
    this.status.begin();
    if (this.#ports.spool) void this.#startFromSpool();
    else this.#session.start();
  }

  /** Reports a step of the engine's start, for people. */
  enginePhase(step: EngineStep): void {
    if (this.#models.length === 0 && !this.#drain) this.status.engineStep(step);
  }

  /**
   * Takes jobs, since the engine is healthy.
   * @param models every name that the engine answers to, its own first
   * @param cards the engine's cards of its models
   * @param version the engine's version; null: the engine does not report it
   * @param identity what the engine serves (model-identity.ts); null: unknown
   */
  engineHealthy(
    models: string[],
    cards: ModelCard[] = [],
    version: string | null = null,
    identity: string | null = null,
  ): void {
    this.#models = models;
    this.status.engineHealthy();
    for (const layer of this.#ports.layers ?? []) layer.engineIs(cards);
    this.#jobs.engineIs(models, takesFields(cards, version), identity);
    if (!this.#drain) this.#jobs.closedFor = null;
    this.#session.engineHealthy(models, cards, identity);
  }

  /** Reports why the engine, which is started elsewhere, is not healthy yet. */
  engineAwaited(message: string, advice: string): void {
    this.#ports.log.warn({}, message);
    this.status.engineAwaited(wordsOf(message, advice));
  }

  /** Reports that the engine, which shares its GPU, waits for its turn or has it. */
  engineTurned(): void {
    this.status.changed();
    this.#load.turned();
  }

  engineUnhealthy(message: string): void {
    this.#ports.log.warn({ problem: message }, 'taking no jobs until the engine is healthy again');
    if (!this.#drain) this.#jobs.closedFor = 'engine_restarting';
    this.#session.engineUnhealthy();
    this.#load.reset();
  }

  /**
   * Waits for a new engine after one died or hung. The attempts that ran on it have failed, and are charged, since
   * their requests may be the cause. Jobs that had not reached the engine go back to the queue.
   */
  engineRestarting(message: string, advice?: string): void {
    this.#ports.log.error({ problem: message }, 'the engine is gone; waiting for it to come back');
    this.#jobs.closedFor ??= 'engine_restarting';
    this.#load.reset();
    this.#session.engineUnhealthy();
    this.#jobs.releaseUnstarted();
    this.#failWhatRan(message);
    if (this.#drain) return;
    this.#models = [];
    this.status.engineRestarting(wordsOf(message, advice));
  }

  /** Ends the worker, since the engine is gone for good: the attempts that ran on it have failed. */
  engineFailed(message: string, wasHealthy: boolean, kind: FailureKind = 'transient', advice?: string): void {
    if (this.#exitCode !== EXIT.ok) return;
    const status = kind === 'bad_host' ? 'fatal' : wasHealthy ? 'error' : 'failed';
    this.#ports.log.error({ problem: message }, 'the engine is gone; the worker ends');
    this.#lastWords = { status, ...wordsOf(message, advice) };
    this.#exitCode = failureExitCode(kind, wasHealthy);
    this.status.say(this.#lastWords);
    this.#jobs.closedFor = 'engine_restarting';
    this.#failWhatRan(message);
    this.drain(0);
  }

  /** Ends the worker, since the queue is out of reach for good: no caller would get the answers of what runs here. */
  queueLost(seconds: number): void {
    this.#ports.log.error({}, `the queue could not be reached for ${seconds} s; the worker ends`);
    this.#exitCode ||= EXIT.queueLost;
    this.drain(0);
  }

  /**
   * Takes no more jobs: those that can finish in time do, the rest are released. In a second drain the shorter grace
   * counts.
   * @param isPreempted whether the machine is being taken away
   */
  drain(graceSeconds: number = this.#settings.graceSeconds, isPreempted = false): void {
    if (this.#isEnding) return;
    const shown = Math.round(graceSeconds * 10) / 10;
    this.#ports.log.info({ running: this.#jobs.held.running, grace_s: shown }, 'draining');
    const graceMs = graceSeconds * 1000;
    if (this.#drain) this.#drain.within(graceMs);
    else this.#drain = this.#createDrain(graceMs);
    this.#jobs.closedFor ??= 'draining';
    this.#preempted ||= isPreempted;
    this.#session.drain(isPreempted);
    if (this.#exitCode === EXIT.ok) this.status.changed();
    this.#jobs.releaseUnstarted();
    this.#jobs.releaseUnfinishable(graceMs);
    this.#drain.check();
  }

  /** Ends the worker at once. */
  force(): void {
    this.#exitCode = EXIT.forced;
    this.drain(0);
    this.#drain?.force();
  }

  #failWhatRan(message: string): void {
    this.#jobs.failAll({ message: `the engine died: ${message}`, code: 'engine_died', retryable: true });
  }

  /** Reads what an earlier process left behind before it dials, since the first frame lists these results. */
  async #startFromSpool(): Promise<void> {
    this.#isLoading = true;
    await this.#jobs.load();
    this.#isLoading = false;
    this.#session.start();
    this.#drain?.check();
  }

  #createSession(): Session {
    return new Session(this.#ports, this.#settings, this.#settings.instance, {
      stateChanged: (state) => this.#stateChanged(state),
      connected: (peer, registered) => {
        if (peer.answersUrl && !this.#ports.inside) this.#answers.connect(peer.answersUrl);
        this.#jobs.connected(registered);
      },
      job: (job) => this.#jobs.accept(job),
      revoked: (jobId, reason) => {
        this.#jobs.revoke(jobId, reason);
        this.#load.slotReturned();
      },
      acknowledged: (ack) => {
        this.#jobs.acknowledged(ack);
        // The queue did not count the job as this worker's, and does not know that its slot is free now.
        if (ack.outcome !== 'accepted') this.#load.slotReturned();
      },
      renewed: (renewed) => {
        this.#jobs.renewed(renewed);
        if (renewed.lost.length > 0) this.#load.slotReturned();
      },
      denied: (message) => this.#denied(message),
      heldJobs: () => this.#jobs.held.refs(),
      hasEarlyResults: () => this.#jobs.hasEarlyResults,
    });
  }

  #createLoadWatch(): LoadWatch {
    return new LoadWatch({
      ...this.#ports,
      settings: this.#settings.backpressure,
      slots: () =>
        this.#session.state === 'ready' ? { running: this.#jobs.held.running, free: this.#jobs.free } : null,
      generated: () => this.#jobs.held.generated(),
      pressureChanged: (isPressed) => this.#session.pressureChanged(isPressed),
      report: (frame) => {
        if (isExtended(this.#session.peer)) this.#session.send(frame);
      },
    });
  }

  #createStatus(post: PostHeartbeat | null): WorkerStatus {
    const ports = {
      ...this.#ports,
      post,
      status: () => this.#statusNow(),
      models: () => this.#models,
      isPreempted: () => this.#preempted,
      running: () => this.#jobs.held.running,
      outage: () => this.#jobs.outage,
    };
    return new WorkerStatus(ports, this.#settings);
  }

  #createDrain(graceMs: number): Drain {
    return new Drain(
      {
        clock: this.#ports.clock,
        running: () => this.#jobs.held.running,
        isSettled: () => this.#isSettled(),
        graceOver: () => this.#jobs.graceOver(),
        done: () => void this.#end(),
      },
      graceMs,
    );
  }

  #isSettled(): boolean {
    return !this.#isLoading && !this.#jobs.held.hasUntold && this.#answers.isIdle;
  }

  #stateChanged(state: SessionState): void {
    if (state !== 'ready') return;
    this.#load.ready();
    this.status.changed();
    this.#events.ready(this.#models);
  }

  /** Returns null while the socket is down or the engine unhealthy: a silent worker is then known not to be healthy. */
  #statusNow(): 'starting' | 'running' | 'draining' | null {
    if (this.#drain) return 'draining';
    if (this.#session.state === 'ready') return 'running';
    return this.#models.length === 0 ? 'starting' : null;
  }

  #denied(message: string): void {
    this.#ports.log.error({}, message);
    this.#exitCode = EXIT.deniedByQueue;
    this.#lastWords = { status: 'error', error_message: message };
    this.#jobs.voidAll('denied by the queue');
    void this.#end();
  }

  async #end(): Promise<void> {
    if (this.#isEnding) return;
    this.#isEnding = true;
    if (this.unacknowledged > 0) {
      this.#ports.log.warn({ results: this.unacknowledged }, 'ending with results nobody acknowledged');
    }
    this.#load.stop();
    this.#jobs.stop();
    const [acknowledged, goodbye] = [endOfStep('acknowledgements'), endOfStep('goodbye')];
    const withinMs = goodbye - acknowledged + (this.#drain?.leftMs ?? acknowledged);
    const said = this.status.end(this.#lastWords, withinMs);
    await Promise.all([this.#session.stop(withinMs), this.#answers.close(withinMs), said]);
    this.#events.ended(this.#exitCode);
  }
}
