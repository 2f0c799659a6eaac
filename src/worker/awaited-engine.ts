import { type Diagnosis, diagnose } from '../engine/client/diagnosis.ts';
import type { Timer } from './clock.ts';
import type { Ports } from './ports.ts';

/** The first look comes after this time, ms: a user may start engine and worker together. */
const FIRST_LOOK_MS = 1000;
const LOOK_EVERY_MS = 2000;
/** An engine that takes connections is reported if it has answered nothing within this time, ms. */
const ANSWER_WITHIN_MS = 1000;

/** An engine that is started elsewhere. */
export interface AwaitedSettings {
  url: string;
  healthPaths: readonly string[];
  /** The variables that its address comes from. */
  variables: string;
}

/** A message, which ends with the advice. */
export interface Trouble {
  message: string;
  advice: string;
}

export interface AwaitedPorts extends Pick<Ports, 'clock' | 'engine'> {
  /** Called when the reason why it is not healthy changes. */
  tell(trouble: Trouble): void;
}

/** Finds out why an engine that is started elsewhere is not healthy: no supervisor would tell. */
export class AwaitedEngine {
  readonly #ports: AwaitedPorts;
  readonly #settings: AwaitedSettings;
  #timer: Timer = null;
  /** The number of the present wait; a look of an earlier wait is void. */
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

  /** The last message, when the worker has waited long enough. */
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
