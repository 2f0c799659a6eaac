import type { Clock } from '../../process/clock.ts';
import { fieldsOf } from '../../protocol/index.ts';
import {
  EngineAnswerInvalid,
  type EngineClient,
  EngineGone,
  EngineUnreachable,
  type Probe,
  readPieces,
} from './types.ts';

/**
 * The state of the engine's health, judged by its probes:
 *
 * - `starting`  → `healthy` (first good probe), `failed` (none within the start-up time)
 * - `healthy`   → `unhealthy` (refused once, or three misses in a row), `doubted` (a request failed)
 * - `doubted`   → `healthy` (a good probe), `unhealthy` (any other)
 * - `unhealthy` → `healthy` (a good probe)
 * - `failed` is final.
 * - any → `starting` (the engine is started again)
 */
export type HealthState = 'starting' | 'healthy' | 'doubted' | 'unhealthy' | 'failed';

export interface EngineHealthOptions {
  /** Probes the engine once; must not throw. */
  probe(timeoutMs: number): Promise<Probe>;
  startupTimeoutMs: number;
  clock: Clock;
  /** Called on every change of state; `message` says why, for people. */
  onChange(state: HealthState, message: string): void;
}

/**
 * The pause between probes of a starting engine, ms: at the cost of a tenth of a core, the worker offers its slots to
 * the queue within milliseconds of the first healthy answer.
 */
const STARTING_EVERY_MS = 10;
const EVERY_MS = 1000;
/**
 * The time limit of a probe, ms. vLLM's API server shares its core with tokenizing, so its answer may be late on a
 * healthy engine. SGLang generates a token for each answer and never answers within a second.
 */
const PROBE_MS = 3000;
const MISSES = 3;

/** Watches one engine with one probe at a time; the next probe follows a pause after the last answer. */
export class EngineHealth {
  #state: HealthState = 'starting';
  #misses = 0;
  #stopped = false;
  #startedAt = 0;
  /** The number of the engine's life that is watched; answers to probes of earlier lives are ignored. */
  #life = 0;
  #timer: unknown;
  readonly #options: EngineHealthOptions;

  constructor(options: EngineHealthOptions) {
    this.#options = options;
  }

  get state(): HealthState {
    return this.#state;
  }

  start(): void {
    this.#startedAt = this.#options.clock.now();
    void this.#probe(this.#life);
  }

  /**
   * Begins to watch an engine that is started again: nothing from its previous life counts, not even the answer to a
   * probe in progress.
   * @param afterMs the pause before the start, which does not count against its start-up time
   */
  restart(afterMs = 0): void {
    if (this.#stopped) return;
    this.#options.clock.clearTimeout(this.#timer);
    this.#life += 1;
    this.#misses = 0;
    this.#state = 'starting';
    this.start();
    this.#startedAt += afterMs;
  }

  /**
   * Probes at once, since a request failed like requests to a dying engine.
   * @param cause the reason, for people
   */
  doubt(cause: string): void {
    if (this.#stopped || this.#state !== 'healthy') return;
    this.#options.clock.clearTimeout(this.#timer);
    this.#life += 1;
    this.#become('doubted', cause);
    void this.#probe(this.#life);
  }

  /** Stops for good: no probe and no callback follows. */
  stop(): void {
    this.#stopped = true;
    this.#options.clock.clearTimeout(this.#timer);
  }

  async #probe(life: number): Promise<void> {
    const answer = await this.#options.probe(PROBE_MS);
    if (this.#stopped || life !== this.#life) return;
    this.#observe(answer);
    if (this.#stopped || this.#state === 'failed') return;
    const pause = this.#state === 'starting' ? STARTING_EVERY_MS : EVERY_MS;
    this.#timer = this.#options.clock.setTimeout(() => void this.#probe(life), pause);
  }

  #observe(answer: Probe): void {
    if (answer === 'healthy') {
      this.#misses = 0;
      if (this.#state !== 'healthy') this.#become('healthy', 'the engine is healthy');
      return;
    }
    this.#misses += 1;
    if (this.#state === 'starting') this.#observeStart();
    else if (this.#state !== 'unhealthy') this.#observeMiss(answer);
  }

  #observeStart(): void {
    const { startupTimeoutMs, clock } = this.#options;
    if (clock.now() - this.#startedAt < startupTimeoutMs) return;
    this.#become(
      'failed',
      `the engine was not healthy within ${startupTimeoutMs / 1000} s: look into its log, and raise ` +
        'VLLM_STARTUP_TIMEOUT if it was still downloading or loading the model',
    );
  }

  #observeMiss(answer: Probe): void {
    if (answer === 'refused') this.#become('unhealthy', 'the engine refuses connections');
    else if (this.#state === 'doubted')
      this.#become('unhealthy', 'the engine missed the health check after a request that failed');
    else if (this.#misses >= MISSES)
      this.#become('unhealthy', `the engine missed ${MISSES} health checks in a row`);
  }

  #become(state: HealthState, message: string): void {
    this.#state = state;
    this.#options.onChange(state, message);
  }
}

/** The reason why an engine is not healthy, as seen from outside. */
export interface Diagnosis {
  /** `locked`: the engine wants another key. `no_engine`: the server that answers is no engine. */
  kind: 'unreachable' | 'no_engine' | 'locked' | 'unhealthy';
  /** The problem for people, to be written after the address. */
  problem: string;
}

/** The meaning of system and TLS errors; any other error is reported as it is. */
const CONNECTION_PROBLEMS: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EHOSTUNREACH: 'no route to this host',
  ENETUNREACH: 'no route to this network',
  ENOTFOUND: 'there is no host of this name',
  EAI_AGAIN: 'the name of the host cannot be looked up',
  ETIMEDOUT: 'no answer to the connection',
  UND_ERR_CONNECT_TIMEOUT: 'no answer to the connection',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS: the address begins with http://',
};

/**
 * Asks what a health probe asks, but for the reason instead of a yes or no. Never throws.
 * @returns null: the engine is healthy
 */
export async function diagnose(
  engine: Pick<EngineClient, 'request'>,
  healthPaths: readonly string[],
  limitMs: number,
): Promise<Diagnosis | null> {
  const missing: string[] = [];
  try {
    for (const path of healthPaths) {
      const signal = AbortSignal.timeout(limitMs);
      const { status, body } = await engine.request({ method: 'GET', path, signal });
      await readPieces(body, () => false);
      const asked = `GET ${path}`;
      if (status === 200) return null;
      if (status === 404) missing.push(asked);
      else if (status === 401 || status === 403)
        return { kind: 'locked', problem: `it wants another key: ${asked} is ${status}` };
      else if (status >= 500)
        return { kind: 'unhealthy', problem: `it answers, but is not healthy: ${asked} is ${status}` };
      else return { kind: 'no_engine', problem: `it answers, but is no engine: ${asked} is ${status}` };
    }
  } catch (error) {
    return diagnosisOf(error, limitMs);
  }
  return { kind: 'no_engine', problem: `it answers, but is no engine: ${missing.join(' and ')} are 404` };
}

function diagnosisOf(error: unknown, limitMs: number): Diagnosis {
  if (error instanceof EngineUnreachable) {
    const { code } = fieldsOf(error.cause);
    return { kind: 'unreachable', problem: CONNECTION_PROBLEMS[String(code)] ?? error.message };
  }
  if (error instanceof EngineAnswerInvalid)
    return { kind: 'no_engine', problem: 'it answers, but not in HTTP' };
  if (error instanceof EngineGone)
    return { kind: 'no_engine', problem: 'it closes connections without an answer' };
  return {
    kind: 'unhealthy',
    problem: `it takes connections, but does not answer within ${limitMs / 1000} s`,
  };
}
