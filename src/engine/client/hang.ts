import type { Clock } from '../../process/clock.ts';
import { CHAT_PATH, COMPLETIONS_PATH } from '../../protocol/index.ts';
import { type EngineClient, type EngineGauges, readPieces } from './types.ts';

/**
 * The state of the watch that decides whether an engine that says it is healthy makes anything:
 *
 * - `off`        → `watching` (the engine became healthy)
 * - `watching`   → `confirming` (work and no progress for `hangMs`, or idle for `canaryMs`)
 * - `confirming` → `watching` (the canary came, or something else moved meanwhile), `hung`
 * - `unhealthy`  → `watching` (healthy again), `hung` (not within `hangMs`)
 * - `hung`       → `watching` (a later canary came; only an engine that nobody restarts is asked again)
 * - all but `off` → `unhealthy` (the health check failed), `off` (stopped, or the engine is started again)
 */
export type HangState = 'off' | 'watching' | 'confirming' | 'unhealthy' | 'hung';

export interface HangWatchPorts {
  clock: Clock;
  /** Reads the engine's gauges; must not throw. */
  gauges(): Promise<EngineGauges | null>;
  /** Asks the engine for one token; must not throw. */
  canary(limitMs: number): Promise<CanaryAnswer>;
  /** Returns the number of requests that the worker knows the engine has. */
  ownWork(): number;
  /** Without progress for this long, ms, the engine is suspected to hang; 0: nothing is watched. */
  hangMs: number;
  /** An engine without work is asked for a token at this interval, ms; 0: never. */
  canaryMs: number;
  /** Whether someone restarts a hung engine, so that the watch does not ask it again. */
  isRestarted: boolean;
  /** Reports that the engine hangs. `message`: what was seen, for people. */
  hung(message: string): void;
  recovered(): void;
}

const LOOK_EVERY_MS = 5000;
/** The time limit of the canary, ms: some first requests of a kind make vLLM compile for half a minute. */
const CANARY_LIMIT_MS = 30_000;

/**
 * Finds an engine that hangs behind a good health check, as vLLM does when its engine process stops: the API server
 * keeps answering, and requests keep waiting. Work without progress raises the suspicion, and a request of the worker's
 * own decides. Engines that report no counts are watched by idle canaries only.
 */
export class HangWatch {
  readonly #ports: HangWatchPorts;
  #state: HangState = 'off';
  /** The number of changes from outside so far; each makes earlier questions void. */
  #round = 0;
  #timer: unknown;
  #progress: number | null = null;
  /** The time since which there has been work and nothing has moved, epoch ms. */
  #stillSince = 0;
  #lastSignOfLife = 0;

  constructor(ports: HangWatchPorts) {
    this.#ports = ports;
  }

  get state(): HangState {
    return this.#state;
  }

  /**
   * Starts to watch when the health check succeeds, for the first time or again. A running watch keeps what it has
   * seen.
   */
  healthy(): void {
    if (this.#state === 'watching' || this.#state === 'confirming') return;
    this.stop();
    if (this.#ports.hangMs === 0 && this.#ports.canaryMs === 0) return;
    this.#watch();
  }

  /** Waits for an engine that was healthy and whose health check fails. */
  unhealthy(): void {
    const { hangMs } = this.#ports;
    if (this.#state === 'off' || hangMs === 0) return;
    this.stop();
    this.#state = 'unhealthy';
    this.#later(hangMs, () => this.#conclude(`it has not been healthy for ${hangMs / 1000} s`));
  }

  /** Watches nothing, until the engine is healthy again. */
  stop(): void {
    this.#round += 1;
    this.#state = 'off';
    this.#ports.clock.clearTimeout(this.#timer);
  }

  #watch(): void {
    this.#state = 'watching';
    this.#progress = null;
    this.#signOfLife();
    // The first look comes later: requests that waited for the engine go first.
    this.#lookLater();
  }

  #lookLater(): void {
    const { hangMs, canaryMs } = this.#ports;
    const shortest = Math.min(hangMs || canaryMs, canaryMs || hangMs);
    const round = this.#round;
    this.#later(Math.min(LOOK_EVERY_MS, shortest / 4), () => void this.#look(round));
  }

  async #look(round: number): Promise<void> {
    const gauges = await this.#ports.gauges();
    if (round !== this.#round) return;
    this.#note(gauges);
    const suspicion = this.#suspicion(gauges);
    if (suspicion) return await this.#confirm(round, suspicion);
    this.#lookLater();
  }

  /** Notes progress. @returns whether something moved since the last look */
  #note(gauges: EngineGauges | null): boolean {
    const progress = gauges?.progress;
    const hasMoved = progress !== undefined && progress !== this.#progress;
    if (hasMoved) {
      this.#progress = progress;
      this.#signOfLife();
    } else if (!this.#hasWork(gauges)) {
      this.#stillSince = this.#ports.clock.now();
    }
    return hasMoved;
  }

  #suspicion(gauges: EngineGauges | null): string | null {
    const { clock, hangMs, canaryMs } = this.#ports;
    const now = clock.now();
    if (this.#hasWork(gauges)) {
      if (hangMs === 0 || this.#progress === null || now - this.#stillSince < hangMs) return null;
      return `it has work and made nothing for ${Math.round((now - this.#stillSince) / 1000)} s`;
    }
    return canaryMs > 0 && now - this.#lastSignOfLife >= canaryMs ? 'it has nothing to do' : null;
  }

  async #confirm(round: number, suspicion: string): Promise<void> {
    const { canary, gauges, hangMs, canaryMs } = this.#ports;
    this.#state = 'confirming';
    const limitMs = Math.min(CANARY_LIMIT_MS, hangMs || canaryMs);
    const answer = await canary(limitMs);
    if (round !== this.#round) return;
    const after = answer === 'late' ? await gauges() : null;
    if (round !== this.#round) return;
    if (answer === 'late' && !this.#note(after)) {
      this.#conclude(`${suspicion}, and a request for one token was not answered in ${limitMs / 1000} s`);
      return;
    }
    this.#state = 'watching';
    this.#signOfLife();
    void this.#look(round);
  }

  #conclude(what: string): void {
    this.#state = 'hung';
    this.#ports.hung(`the engine hangs: ${what}`);
    if (!this.#ports.isRestarted && this.#state === 'hung') this.#askAgain(this.#round);
  }

  #askAgain(round: number): void {
    this.#later(LOOK_EVERY_MS, async () => {
      const answer = await this.#ports.canary(CANARY_LIMIT_MS);
      if (round !== this.#round) return;
      if (answer !== 'alive') return this.#askAgain(round);
      this.#watch();
      this.#ports.recovered();
    });
  }

  #hasWork(gauges: EngineGauges | null): boolean {
    return this.#ports.ownWork() > 0 || (gauges !== null && gauges.running + gauges.waiting > 0);
  }

  #signOfLife(): void {
    this.#lastSignOfLife = this.#stillSince = this.#ports.clock.now();
  }

  #later(ms: number, run: () => void): void {
    const round = this.#round;
    this.#timer = this.#ports.clock.setTimeout(() => {
      if (round === this.#round) run();
    }, ms);
  }
}

/**
 * An engine's answer to a request for one token.
 *
 * - `alive`: one token came, or an embedding
 * - `late`: no token came in time, or the engine failed or refused for its own reasons
 * - `unfit`: the engine refused the question itself, which proves nothing (a model that only ranks)
 */
export type CanaryAnswer = 'alive' | 'late' | 'unfit';

const ONE_TOKEN = { max_tokens: 1, stream: false };

/** The least requests that engines answer: for one token, or for an embedding from a model that makes no tokens. */
export const QUESTIONS = [
  { path: COMPLETIONS_PATH, body: { prompt: 'Hello', ...ONE_TOKEN } },
  { path: CHAT_PATH, body: { messages: [{ role: 'user', content: 'Hello' }], ...ONE_TOKEN } },
  { path: '/v1/embeddings', body: { input: 'Hello' } },
];

/** Asks the engine for one token. Never throws. @param model the name to ask for; left out: the engine chooses */
export async function askCanary(
  engine: Pick<EngineClient, 'request'>,
  model: string | undefined,
  limitMs: number,
): Promise<CanaryAnswer> {
  const signal = AbortSignal.timeout(limitMs);
  try {
    for (const { path, body } of QUESTIONS) {
      const answer = await engine.request({
        method: 'POST',
        path,
        body: JSON.stringify({ model, ...body }),
        requestId: 'canary',
        signal,
      });
      await readPieces(answer.body, () => {});
      if (answer.status < 400) return 'alive';
      // An engine that is full while nothing moves counts like one that is silent.
      if (answer.status === 429 || answer.status >= 500) return 'late';
    }
    return 'unfit';
  } catch {
    return 'late';
  }
}
