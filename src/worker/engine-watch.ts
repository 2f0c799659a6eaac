import { isDeepStrictEqual } from 'node:util';
import { askForFirstAnswer } from '../engine/client/first-answer.ts';
import { askCanary, HangWatch } from '../engine/client/hang.ts';
import { type Diagnosis, diagnose, EngineHealth, type HealthState } from '../engine/client/health.ts';
import { sleep } from '../process/clock.ts';
import type { ModelCard } from '../protocol/index.ts';
import type { Timer } from './clock.ts';
import { mayBeEqual, modelIdentity } from './model-identity.ts';
import type { Ports } from './ports.ts';
import type { Worker } from './worker.ts';

/** An engine has this long for its first answer, ms: some compile for ten minutes when they get their first request. */
const FIRST_ANSWER_MS = 900_000;
/**
 * Whoever started the engine has this long, ms, to report that it died of its first request: the end of its log says
 * more than a broken connection.
 */
const CAUSE_WITHIN_MS = 5000;
/** An engine that was started elsewhere is asked this often, ms, which names it answers to: they may change at any time. */
const NAMES_EVERY_MS = 10_000;

export interface EngineOwner {
  /** Called when the engine has answered its health check and its first request, and each time it is healthy again. */
  healthy(): void;
  /** Asks the owner to kill the engine, so that it is restarted or the worker ends. */
  hung(message: string): void;
}

export interface EngineWatchPorts extends Pick<Ports, 'clock' | 'engine' | 'adapters'> {
  worker: Worker;
  startupTimeoutMs: number;
  hangSeconds: number;
  canarySeconds: number;
  /** The revision of the model that the engine was told to load; null: none, or nobody knows. */
  revision: string | null;
  /** The version of what the worker was started with; null or left out: nobody names it. */
  version?: string | null;
  /** The supervisor, which started the engine and takes its state; null: the engine was started elsewhere. */
  supervisor: EngineOwner | null;
  /**
   * The engine's address, if it was started elsewhere; null: a supervisor starts it beside this worker and reports its
   * start.
   */
  awaited: AwaitedSettings | null;
}

/**
 * Reports to the worker everything that can be seen of the engine from outside: its health, and whether it hangs. Four
 * observers see that an engine is in trouble. The first in this list that speaks decides, and those below it change
 * nothing:
 *
 * 1. The supervisor saw the engine's process end. After `engineFailed` the running jobs fail and the worker ends. After
 *    `engineRestarting` the running jobs fail, and the worker waits for the engine's next life; answers to earlier
 *    probes do not count.
 * 2. The hang watch sees no progress. The supervisor kills an engine that it started, and then reports as in 1. Any
 *    other engine is treated as `engineRestarting` until it makes progress again.
 * 3. The health check is refused, or missed three times: `engineUnhealthy`. No running job fails, and no job is taken
 *    until the next good probe. If it lasts as long as a hang does, it counts as a hang.
 * 4. A job fails as jobs of a dying engine do: `doubt`. No job is taken until a probe, made at once, has found the
 *    engine healthy, or has made this case 3.
 */
export class EngineWatch {
  readonly #ports: EngineWatchPorts;
  readonly #health: EngineHealth;
  readonly #hang: HangWatch;
  readonly #awaited: AwaitedEngine | null;
  /** The number of the engine's life that is watched; what comes of an earlier one is void. */
  #life = 0;
  /** Resolves, in this life of the engine, to whether it has answered a request; null: it was not asked yet. */
  #firstAnswer: Promise<boolean> | null = null;
  #models: string[] = [];
  #version: string | null = null;
  #identity: string | null = null;
  #cards: ModelCard[] = [];
  /** Whether somebody may have started another engine at the address since the identity was asked for. */
  #mayBeAnother = false;
  #namesTimer: Timer = null;

  constructor(ports: EngineWatchPorts) {
    const { worker } = ports;
    this.#ports = ports;
    const tell = ({ message, advice }: Trouble) => worker.engineAwaited(message, advice);
    this.#awaited = ports.awaited && new AwaitedEngine({ ...ports, tell }, ports.awaited);
    this.#health = new EngineHealth({
      probe: (timeoutMs) => ports.engine.probe(timeoutMs),
      startupTimeoutMs: ports.startupTimeoutMs,
      clock: ports.clock,
      onChange: (state, message) => void this.#healthChanged(state, message),
    });
    this.#hang = new HangWatch({
      clock: ports.clock,
      gauges: () => ports.engine.gauges().catch(() => null),
      canary: (limitMs) => askCanary(ports.engine, this.#models[0], limitMs),
      ownWork: () => worker.running,
      hangMs: ports.hangSeconds * 1000,
      canaryMs: ports.canarySeconds * 1000,
      isRestarted: ports.supervisor !== null,
      // The worker waits for an engine that was started elsewhere as if the engine were being restarted.
      hung: ports.supervisor?.hung ?? ((message) => worker.engineRestarting(message)),
      recovered: () => this.#tellHealthy(),
    });
  }

  start(): void {
    this.#health.start();
    this.#awaited?.start();
    if (this.#ports.supervisor === null) this.#lookAtNamesLater();
  }

  stop(): void {
    this.#life += 1;
    this.#health.stop();
    this.#awaited?.stop();
    this.#hang.stop();
    this.#ports.clock.clearTimeout(this.#namesTimer);
  }

  /** Probes the engine after a job failed as jobs of a dying engine do. */
  doubt(message: string): void {
    this.#health.doubt(message);
  }

  /** Waits for the engine's next life: its process ended and is started again after a pause. */
  restarting(message: string, afterMs: number, advice: string): void {
    this.#hang.stop();
    this.#life += 1;
    this.#firstAnswer = null;
    this.#ports.worker.engineRestarting(message, advice);
    this.#health.restart(afterMs);
  }

  #tellHealthy(): void {
    const { worker, adapters } = this.#ports;
    const told = adapters?.engineServes(this.#models, this.#cards);
    worker.engineHealthy(
      told?.names ?? this.#models,
      told?.cards ?? this.#cards,
      this.#version,
      this.#identity,
    );
  }

  async #healthChanged(state: HealthState, message: string): Promise<void> {
    const { engine, worker } = this.#ports;
    this.#awaited?.stop();
    if (state === 'failed') {
      const trouble = this.#awaited?.gaveUp(this.#ports.startupTimeoutMs);
      worker.engineFailed(trouble?.message ?? message, false, 'transient', trouble?.advice);
    }
    if (state === 'doubted' || state === 'unhealthy') worker.engineUnhealthy(message);
    if (state === 'unhealthy') {
      this.#hang.unhealthy();
      this.#mayBeAnother = this.#ports.supervisor === null;
    }
    if (state !== 'healthy') return;
    const life = this.#life;
    const [models, cards, version] = await Promise.all([
      engine.models(),
      engine.modelCards(),
      engine.version(),
    ]);
    if (this.#health.state !== 'healthy') return;
    // A busy engine may not answer in time; the worker then keeps the models it knows.
    if (models.length > 0) [this.#models, this.#cards] = [models, cards];
    this.#version = version;
    this.#firstAnswer ??= this.#askForFirstAnswer(life);
    if (!(await this.#firstAnswer) || this.#health.state !== 'healthy') return;
    if (this.#mayBeAnother) await this.#identifyAgain();
    if (this.#health.state !== 'healthy') return;
    this.#ports.supervisor?.healthy();
    this.#ports.engine.started?.();
    this.#tellHealthy();
    this.#hang.healthy();
    // An engine that did not list its models in time lists them later.
    if (this.#models.length === 0) this.#lookAtNamesLater();
  }

  #lookAtNamesLater(): void {
    const life = this.#life;
    this.#ports.clock.clearTimeout(this.#namesTimer);
    this.#namesTimer = this.#ports.clock.setTimeout(async () => {
      if (this.#isServing()) await this.#lookAtNames();
      const mayChange = this.#ports.supervisor === null || this.#models.length === 0;
      if (life === this.#life && mayChange) this.#lookAtNamesLater();
    }, NAMES_EVERY_MS);
  }

  /** Reports the names that the engine answers to, if they have changed while it was healthy. */
  async #lookAtNames(): Promise<void> {
    const { adapters, engine } = this.#ports;
    const [models, cards] = await Promise.all([engine.models(), engine.modelCards()]);
    // The worker itself loads adapters, and reports those.
    const own = (names: readonly string[]) => names.filter((name) => !adapters?.has(name)).sort();
    const isSame = isDeepStrictEqual(own(models), own(this.#models));
    // A busy engine may not answer in time.
    if (models.length === 0 || isSame || !this.#isServing()) return;
    [this.#models, this.#cards] = [models, cards];
    await this.#identifyAgain();
    if (this.#isServing()) this.#tellHealthy();
    else this.#mayBeAnother = true;
  }

  /** Tells whether the worker takes jobs: else the names are asked for when the engine is healthy again. */
  #isServing(): boolean {
    return this.#health.state === 'healthy' && this.#ports.worker.state === 'ready';
  }

  /**
   * Asks the engine of this life for its first answer, and ends the worker if none comes: slots are offered by an engine
   * that serves, not by one that only says so.
   */
  async #askForFirstAnswer(life: number): Promise<boolean> {
    const { clock, engine, supervisor, worker } = this.#ports;
    worker.enginePhase({ phase: 'warming', atMs: clock.now() });
    const found = await askForFirstAnswer({ engine, clock }, this.#models[0], FIRST_ANSWER_MS);
    if (found === null) {
      const identity = await this.#identify();
      if (life === this.#life) this.#identity = identity;
      return life === this.#life;
    }
    if (supervisor) await sleep(clock, CAUSE_WITHIN_MS);
    if (life !== this.#life) return false;
    const message = `the engine is healthy, but failed its first request: ${found.problem}. ${found.advice}`;
    worker.engineFailed(message, false, 'transient', found.advice);
    return false;
  }

  #identify(): Promise<string | null> {
    const { clock, engine, revision, version = null } = this.#ports;
    return modelIdentity({ engine, clock }, { names: this.#models, cards: this.#cards, revision, version });
  }

  /** Asks anew what the engine serves. A busy engine may not tell its tokenizer's ids in time, as it did before. */
  async #identifyAgain(): Promise<void> {
    this.#mayBeAnother = false;
    const [known, found] = [this.#identity, await this.#identify()];
    if (known === null || found === null || !mayBeEqual(known, found)) this.#identity = found;
  }
}

/** The first look comes after this time, ms: a user may start engine and worker together. */
const FIRST_LOOK_MS = 1000;
const LOOK_EVERY_MS = 2000;
/** An engine that accepts connections is reported if it has answered nothing within this time, ms. */
const ANSWER_WITHIN_MS = 1000;

/** An engine that is started elsewhere. */
export interface AwaitedSettings {
  url: string;
  healthPaths: readonly string[];
  /** The variables that set its address. */
  variables: string;
}

/** A message, which ends with the advice. */
interface Trouble {
  message: string;
  advice: string;
}

interface AwaitedPorts extends Pick<Ports, 'clock' | 'engine'> {
  /** Called when the reason why it is not healthy changes. */
  tell(trouble: Trouble): void;
}

/** Finds out why an engine that is started elsewhere is not healthy, since no supervisor reports it. */
class AwaitedEngine {
  readonly #ports: AwaitedPorts;
  readonly #settings: AwaitedSettings;
  #timer: Timer = null;
  /** The number of the present wait; a look begun in an earlier wait is void. */
  #wait = 0;
  #found: Diagnosis | null = null;

  constructor(ports: AwaitedPorts, settings: AwaitedSettings) {
    this.#ports = ports;
    this.#settings = settings;
  }

  start(): void {
    this.#wait += 1;
    this.#next(this.#wait, FIRST_LOOK_MS);
  }

  stop(): void {
    this.#wait += 1;
    this.#ports.clock.clearTimeout(this.#timer);
  }

  /** Returns the last message, once the worker has waited long enough. */
  gaveUp(waitedMs: number): Trouble {
    const { url } = this.#settings;
    const why = this.#found === null ? 'it does not say why' : this.#found.problem;
    return this.#withAdvice(`the engine at ${url} was not healthy within ${waitedMs / 1000} s: ${why}`);
  }

  #next(wait: number, afterMs: number): void {
    this.#timer = this.#ports.clock.setTimeout(() => void this.#look(wait), afterMs);
  }

  async #look(wait: number): Promise<void> {
    const { engine, tell } = this.#ports;
    const { url, healthPaths } = this.#settings;
    const found = await diagnose(engine, healthPaths, ANSWER_WITHIN_MS);
    if (wait !== this.#wait) return;
    const isNews = found !== null && found.problem !== this.#found?.problem;
    if (found !== null) this.#found = found;
    if (isNews) tell(this.#withAdvice(`waiting for the engine at ${url}: ${found.problem}`));
    this.#next(wait, LOOK_EVERY_MS);
  }

  #withAdvice(message: string): Trouble {
    const advice = this.#advice();
    return { message: `${message}. ${advice}`, advice };
  }

  #advice(): string {
    const { variables } = this.#settings;
    switch (this.#found?.kind) {
      case 'unreachable':
        return `Start it, or correct ${variables}.`;
      case 'no_engine':
        return `Correct ${variables}: the address of a server with OpenAI's API, without /v1.`;
      case 'locked':
        return 'Set ENGINE_API_KEY to its key.';
      default:
        return 'Look into its log; where it only needs longer to load its model, raise VLLM_STARTUP_TIMEOUT.';
    }
  }
}
