import type { Heartbeat, Instance } from '../../protocol/index.ts';
import type { EndedAttempt, Ports, WorkObserver } from '../ports.ts';
import { type Beat, Heartbeats, type PostHeartbeat } from './heartbeat.ts';
import { Collector, type Readings } from './readings.ts';
import { EngineStart, type EngineStep, RateMeter, WorkTally } from './tally.ts';

export interface StatusSettings {
  instance: Instance;
  queueId: string;
  configId: string;
  workerId: string;
  capacity: number;
  heartbeatIntervalSeconds: number;
  /** When the container was created, epoch ms; left out: not known. */
  createdAtMs?: number | undefined;
}

export interface WorkerStatusPorts
  extends Pick<Ports, 'clock' | 'engine' | 'prefills' | 'gpus' | 'log' | 'spool'> {
  /** Posts heartbeats; null: there is no address to post to, and nothing is sent. */
  post: PostHeartbeat | null;
  /** Returns the worker's status; null: no heartbeat is sent, and this silence is a sign too. */
  status(): 'starting' | 'running' | 'draining' | null;
  /** Returns the names that the engine answers to; empty while the engine is not up. */
  models(): readonly string[];
  /** Returns whether the worker's machine is being taken away. */
  isPreempted(): boolean;
  /** Returns the number of jobs in slots. */
  running(): number;
  /** Returns why finished results are in memory only; null: they are not. */
  outage(): string | null;
}

/** The most that a heartbeat may hold: characters of its error, characters of its advice, and GPUs. */
const ERROR_CHARACTERS = 16_384;
const ADVICE_CHARACTERS = 1024;
const MOST_GPUS = 64;

/** The statuses after which no readings are requested any more: the engine may be gone, and time is short. */
const LAST_WORDS: readonly Heartbeat['status'][] = ['stopping', 'error', 'failed', 'fatal'];

/** The report behind the answer to `/healthz` on this machine. */
export type Report = Omit<Heartbeat, 'status'> & {
  /** The worker's status; null: its connection to the queue is down, or its engine is not healthy. */
  status: 'starting' | 'running' | 'draining' | null;
};

/** Everything that is reported of this worker, and the heartbeats that report it. */
export class WorkerStatus {
  readonly #ports: WorkerStatusPorts;
  readonly #settings: StatusSettings;
  readonly #start: EngineStart;
  readonly #tally: WorkTally;
  readonly #collector: Collector;
  #rate = new RateMeter();
  readonly #heartbeats: Heartbeats;
  /** The reason why the engine is not healthy, with advice; empty once it is. */
  #awaited: Omit<Beat, 'status'> = {};
  /**
   * Whether the engine has counted generated tokens: its counter is more exact than the worker's, but not every engine
   * has one.
   */
  #engineCounts = false;

  constructor(ports: WorkerStatusPorts, settings: StatusSettings) {
    const { clock } = ports;
    this.#ports = ports;
    this.#settings = settings;
    this.#start = new EngineStart(clock.now(), settings.createdAtMs);
    this.#tally = new WorkTally(() => this.#start.firstJob(clock.now()));
    this.#collector = new Collector({ ...ports, isEngineUp: () => ports.models().length > 0 });
    this.#heartbeats = new Heartbeats({
      ...ports,
      intervalSeconds: settings.heartbeatIntervalSeconds,
      complete: (beat) => this.#complete(beat),
      current: () => this.#current(),
    });
  }

  /** The observer to call with the worker's dealings with jobs. */
  get observer(): WorkObserver {
    return this.#tally;
  }

  /** Sets the listener that is called with each ended attempt. */
  set onAttempt(listener: (attempt: EndedAttempt) => void) {
    this.#tally.listener = listener;
  }

  /** Reads the present state. Never rejects. */
  async report(): Promise<Report> {
    const readings = await this.#collector.take();
    const status = this.#ports.status();
    const phase = status === 'starting' ? this.#start.phase : {};
    return { ...this.#facts(readings), status, ...phase };
  }

  begin(): void {
    this.#heartbeats.start();
  }

  /** Reports that the status, or something about it, has changed. */
  changed(more: Omit<Beat, 'status'> = {}): void {
    const beat = this.#current();
    if (beat) this.#heartbeats.say({ ...beat, ...more });
  }

  engineStep(step: EngineStep): void {
    const change = this.#start.step(step);
    if (change === 'phase') this.changed();
    if (change === 'progress') this.#heartbeats.saySoon();
  }

  /** Reports why the engine is not healthy yet; the reason is kept until it is healthy. */
  engineAwaited(why: Omit<Beat, 'status'>): void {
    this.#awaited = why;
    this.changed();
  }

  engineHealthy(): void {
    this.#awaited = {};
    this.#start.healthy(this.#ports.clock.now());
  }

  engineRestarting(more: Omit<Beat, 'status'>): void {
    this.#start.restarting(this.#ports.clock.now());
    this.#collector.forgetEngine();
    this.changed(more);
  }

  /** Reports that the worker is about to end, and the reason. */
  say(lastWords: Beat): void {
    this.#heartbeats.say(lastWords);
  }

  /** Ends the heartbeats. @param withinMs the time that the last heartbeat may take, ms */
  async end(lastWords: Beat, withinMs: number): Promise<void> {
    this.#heartbeats.say(lastWords);
    await this.#heartbeats.stop(withinMs);
  }

  #current(): Beat | null {
    const status = this.#ports.status();
    if (!status) return null;
    if (status === 'starting' && this.#awaited.error_message) return { status, ...this.#awaited };
    const outage = this.#ports.outage();
    return outage ? { status, error_message: outage } : { status };
  }

  async #complete(beat: Beat): Promise<Heartbeat> {
    const readings = LAST_WORDS.includes(beat.status) ? this.#collector.newest : await this.#collector.take();
    const { error_message, advice, status } = beat;
    return {
      ...this.#facts(readings),
      status,
      ...defined({
        error_message: error_message?.slice(0, ERROR_CHARACTERS),
        advice: advice?.slice(0, ADVICE_CHARACTERS) || undefined,
        tokens_per_second: this.#tokensPerSecond(readings.gauges?.generatedTokens),
        first_token_ms: this.#tally.takeFirstTokenMs(),
      }),
      ...(status === 'starting' ? this.#start.phase : {}),
    };
  }

  /** Returns the fields that are the same in every status. */
  #facts({ gauges, gpus, engineVersion }: Readings): Omit<Heartbeat, 'status'> {
    const { queueId, configId, workerId, capacity, instance, heartbeatIntervalSeconds } = this.#settings;
    return {
      instance_id: instance.id,
      queue_id: queueId,
      config_id: configId,
      worker_id: workerId,
      capacity,
      running: this.#ports.running(),
      interval_seconds: heartbeatIntervalSeconds,
      start: this.#start.times,
      missed_renewals: this.#tally.missedRenewals,
      ...defined({
        engine: instance.engine,
        engine_version: engineVersion?.slice(0, 128),
        worker_version: instance.worker_version,
        host: instance.host,
        model: this.#ports.models()[0] ?? instance.model,
        preempted: this.#ports.isPreempted() || undefined,
        spool_bytes: this.#ports.spool?.bytes,
        engine_running: gauges ? Math.round(gauges.running) : undefined,
        engine_waiting: gauges ? Math.round(gauges.waiting) : undefined,
        kv_cache_usage: gauges?.kvCacheUsage,
        engine_asleep: this.#ports.engine.isAsleep,
        prefills: this.#ports.prefills?.counts,
        preemptions: gauges?.preemptions,
        gpus: gpus.length > 0 ? gpus.slice(0, MOST_GPUS) : undefined,
      }),
    };
  }

  #tokensPerSecond(counted: number | undefined): number | undefined {
    if (this.#ports.models().length === 0) return undefined;
    if (counted !== undefined && !this.#engineCounts) {
      this.#engineCounts = true;
      this.#rate = new RateMeter();
    }
    const total = this.#engineCounts ? counted : this.#tally.generatedTokens;
    return total === undefined ? undefined : this.#rate.read(total, this.#ports.clock.now());
  }
}

/** Returns the fields that have a value. */
function defined<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
