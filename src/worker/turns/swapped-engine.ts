import {
  type AnswerBody,
  type EngineAnswer,
  type EngineCall,
  type EngineClient,
  type EngineGauges,
  type Probe,
  readPieces,
} from '../../engine/client/types.ts';
import type { Log } from '../../process/log.ts';
import type { Clock, Timer } from '../clock.ts';
import type { TurnRequest, TurnWord } from './turns.ts';

/**
 * The turn of an engine that shares its GPU with others; one of them is awake at a time.
 *
 * - `awake`    → `yielding` (another engine waits, and this one is idle or was awake for `awakeMs`)
 * - `yielding` → `asleep` (its running requests have ended, and it has put its weights aside)
 * - `asleep`   → `waking` (its turn has come)
 * - `waking`   → `awake` (the engine has its weights back)
 *
 * An engine starts as `awake`. Requests that arrive in another state wait, in order, until it is `awake`.
 */
export type TurnState = 'awake' | 'yielding' | 'asleep' | 'waking';

export interface SwappedEnginePorts {
  clock: Clock;
  engine: EngineClient;
  log: Log;
  /** The engine stays awake for this long, ms, while it has work and others wait. */
  awakeMs: number;
  /** Sends a word to the `swap` command, which gives the turns. */
  tell(word: TurnRequest): void;
  /** Called when the engine falls asleep, is awake, or admits no more requests. */
  turned?(): void;
}

/** An engine that starts or dies does not answer, and is asked again after this time, ms. */
const AGAIN_AFTER_MS = 1000;
/** The time limit for putting weights aside or back, ms: it takes some seconds, for the largest models a minute. */
const SWITCH_WITHIN_MS = 120_000;

/** The engine behind its turns, as the worker sees it. */
export class SwappedEngine implements EngineClient {
  readonly #ports: SwappedEnginePorts;
  #state: TurnState = 'awake';
  /** Whether the engine's worker offers slots; the engine keeps its first turn until then. */
  #hasStarted = false;
  #awakeSince = 0;
  #isWanted = false;
  #running = 0;
  #waiting: (() => void)[] = [];
  #timer: Timer = null;

  constructor(ports: SwappedEnginePorts) {
    this.#ports = ports;
    this.#awakeSince = ports.clock.now();
  }

  get isAsleep(): boolean {
    return this.#state === 'asleep' || this.#state === 'waking';
  }

  get awaitsTurn(): boolean {
    return this.#state !== 'awake';
  }

  get state(): TurnState {
    return this.#state;
  }

  /** Ends what the engine needs its first turn for; the turn is over as soon as the engine is idle. */
  started(): void {
    if (this.#hasStarted) return;
    this.#hasStarted = true;
    this.#awakeSince = this.#ports.clock.now();
    this.#look();
  }

  /** Takes a word of the `swap` command. */
  hear(word: TurnWord): void {
    if (word === 'wanted') {
      this.#isWanted = true;
      return this.#look();
    }
    if (this.#state !== 'asleep') return;
    this.#state = 'waking';
    void this.#switch('wake_up', () => {
      this.#state = 'awake';
      this.#awakeSince = this.#ports.clock.now();
      this.#ports.turned?.();
      for (const go of this.#waiting.splice(0)) go();
      this.#look();
    });
  }

  async request(call: EngineCall): Promise<EngineAnswer> {
    if (this.#state === 'awake') this.#running += 1;
    else await this.#turn(call.signal);
    let isOver = false;
    const over = () => {
      if (isOver) return;
      isOver = true;
      call.signal.removeEventListener('abort', over);
      this.#running -= 1;
      this.#look();
    };
    call.signal.addEventListener('abort', over, { once: true });
    try {
      const answer = await this.#ports.engine.request(call);
      return { ...answer, body: untilOver(answer.body, over) };
    } catch (error) {
      over();
      throw error;
    }
  }

  /** Yields the GPU now, or checks again when the turn is over. */
  #look(): void {
    const { clock, awakeMs } = this.#ports;
    clock.clearTimeout(this.#timer);
    if (this.#state === 'awake' && this.#isWanted && this.#hasStarted) {
      const leftMs = this.#awakeSince + awakeMs - clock.now();
      if (this.#running === 0 || leftMs <= 0) this.#yield();
      else this.#timer = clock.setTimeout(() => this.#look(), leftMs);
    }
    if (this.#state !== 'yielding' || this.#running > 0) return;
    // No request reaches the engine until its next turn.
    this.#state = 'asleep';
    void this.#switch('sleep?level=1', () => {
      this.#isWanted = false;
      this.#ports.turned?.();
      this.#ports.tell('asleep');
      if (this.#waiting.length > 0) this.#ports.tell('want');
    });
  }

  #yield(): void {
    this.#state = 'yielding';
    this.#ports.turned?.();
  }

  /**
   * Resolves when the engine is awake, and counts the request as running from then on, since another engine may want
   * the turn in the same moment.
   */
  #turn(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const gone = () => {
      this.#waiting = this.#waiting.filter((one) => one !== go);
      reject(signal.reason as Error);
    };
    const go = () => {
      signal.removeEventListener('abort', gone);
      this.#running += 1;
      resolve();
    };
    signal.addEventListener('abort', gone, { once: true });
    this.#waiting.push(go);
    this.#ports.tell('want');
    return promise;
  }

  /** Asks the engine until it has switched: EngineWatch judges an engine that does not answer. */
  async #switch(route: string, done: () => void): Promise<void> {
    const { clock, engine, log } = this.#ports;
    const startedMs = clock.now();
    try {
      const signal = AbortSignal.timeout(SWITCH_WITHIN_MS);
      const { status, body } = await engine.request({ method: 'POST', path: `/${route}`, signal });
      await readPieces(body, () => {});
      if (status >= 300) throw new Error(`${route} answered ${status}`);
      log.info({ took_ms: clock.now() - startedMs }, `engine: ${route.split('?')[0]}`);
      done();
    } catch (error) {
      log.warn({ problem: (error as Error).message }, `the engine did not do ${route}; it is asked again`);
      clock.setTimeout(() => void this.#switch(route, done), AGAIN_AFTER_MS);
    }
  }

  probe(timeoutMs: number): Promise<Probe> {
    return this.#ports.engine.probe(timeoutMs);
  }

  isHealthy(timeoutMs: number): Promise<boolean> {
    return this.#ports.engine.isHealthy(timeoutMs);
  }

  models(): Promise<string[]> {
    return this.#ports.engine.models();
  }

  modelCards(): ReturnType<EngineClient['modelCards']> {
    return this.#ports.engine.modelCards();
  }

  /**
   * Returns gauges that move while the engine sleeps; otherwise the hang watch would take it for an engine that hangs.
   */
  async gauges(): Promise<EngineGauges | null> {
    if (this.#state === 'awake' || this.#state === 'yielding') return await this.#ports.engine.gauges();
    return { running: 0, waiting: 0, kvCacheUsage: 0, progress: this.#ports.clock.now() };
  }

  metricsPage(): Promise<string | null> {
    return this.#ports.engine.metricsPage();
  }

  version(): Promise<string | null> {
    return this.#ports.engine.version();
  }

  close(): Promise<void> {
    this.#ports.clock.clearTimeout(this.#timer);
    return this.#ports.engine.close();
  }
}

/** Returns a body that calls `over` when it ends in any way. */
function untilOver(body: AnswerBody, over: () => void): AnswerBody {
  const each = body.eachPiece?.bind(body);
  return {
    async *[Symbol.asyncIterator]() {
      try {
        yield* body;
      } finally {
        over();
      }
    },
    ...(each && { eachPiece: (take) => each(take).finally(over) }),
  };
}
