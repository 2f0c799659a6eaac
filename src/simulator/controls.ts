import { existsSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ApiError, notFound } from './errors.ts';
import { sendJson } from './http.ts';
import type { Clock, Pace } from './scheduler.ts';

/** The LoRA adapters that are loaded while the engine runs, with vLLM 0.32's statuses and words. */
export class LoadedAdapters {
  readonly #base: readonly string[];
  readonly #isEnabled: boolean;
  /** The paths from which the adapters were loaded, by name. */
  readonly #paths = new Map<string, string>();

  /** @param base the names of the model itself @param isEnabled whether `--enable-lora` was given */
  constructor(base: readonly string[], isEnabled: boolean) {
    this.#base = base;
    this.#isEnabled = isEnabled;
  }

  get paths(): ReadonlyMap<string, string> {
    return this.#paths;
  }

  /** The names of all loaded adapters that requests may use. */
  get names(): string[] {
    return [...this.#base, ...this.#paths.keys()];
  }

  /** Loads an adapter. @throws ApiError as vLLM answers it @returns the answer's text */
  load({ lora_name: name, lora_path: path, load_inplace }: Record<string, unknown>): string {
    if (typeof name !== 'string' || typeof path !== 'string' || name === '' || path === '')
      throw invalid("Both 'lora_name' and 'lora_path' must be provided.");
    if (this.#base.includes(name))
      throw invalid(`The lora adapter '${name}' conflicts with a served base model.`);
    if (this.#paths.has(name) && load_inplace !== true) {
      throw invalid(
        `The lora adapter '${name}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True.`,
      );
    }
    if (!this.#isEnabled) throw new ApiError(500, 'InternalServerError', 'LoRA is not enabled.');
    if (!existsSync(path))
      throw new ApiError(404, 'NotFoundError', `Loading lora ${name} failed: No adapter found for ${path}`);
    this.#paths.set(name, path);
    return `Success: LoRA adapter '${name}' added successfully.`;
  }

  /** Unloads an adapter. @throws ApiError as vLLM answers it @returns the answer's text */
  unload({ lora_name: name }: Record<string, unknown>): string {
    if (typeof name !== 'string' || name === '')
      throw invalid("'lora_name' needs to be provided to unload a LoRA adapter.");
    if (!this.#paths.delete(name)) throw notFound(`The lora adapter '${name}' cannot be found.`, 'lora_name');
    return `Success: LoRA adapter '${name}' removed successfully.`;
  }
}

function invalid(message: string): ApiError {
  return new ApiError(400, 'InvalidUserInput', message);
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** vLLM's sleep mode: a sleeping engine passes its health check, and requests hang until it is woken. */
export class Sleep {
  #isAsleep = false;
  #awake = Promise.withResolvers<void>();
  /**
   * The file that stands for the GPU memory: it exists while the weights do, so that a test sees them. Null: no file.
   */
  readonly #memory = process.env.SIMULATOR_MEMORY_FILE ?? null;

  readonly #onSleep: () => void;

  /** @param onSleep is called when the engine falls asleep, which loses what it has computed */
  constructor(onSleep: () => void) {
    this.#onSleep = onSleep;
    this.#awake.resolve();
    this.#hold(true);
  }

  /** Resolves when the engine is awake. */
  get awake(): Promise<void> {
    return this.#awake.promise;
  }

  routes(): Record<string, Record<string, Handler>> {
    const change = (isAsleep: boolean): Record<string, Handler> => ({
      POST: (_, response) => {
        this.#become(isAsleep);
        response.writeHead(200, { 'content-length': 0 }).end();
      },
    });
    return {
      '/sleep': change(true),
      '/wake_up': change(false),
      '/is_sleeping': { GET: (_, response) => sendJson(response, 200, { is_sleeping: this.#isAsleep }) },
    };
  }

  #become(isAsleep: boolean): void {
    if (isAsleep === this.#isAsleep) return;
    this.#isAsleep = isAsleep;
    if (isAsleep) {
      this.#awake = Promise.withResolvers();
      this.#onSleep();
    }
    this.#hold(!isAsleep);
    if (!isAsleep) this.#awake.resolve();
  }

  #hold(has: boolean): void {
    if (this.#memory === null) return;
    const path = `${this.#memory}.${process.pid}`;
    if (has) writeFileSync(path, '');
    else rmSync(path, { force: true });
  }
}

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => performance.now(),
  schedule: (delayMs, callback) => {
    if (delayMs <= 0) {
      const immediate = setImmediate(callback);
      return () => clearImmediate(immediate);
    }
    const timer = setTimeout(callback, Math.ceil(delayMs));
    return () => clearTimeout(timer);
  },
};

/** Changes settings of the pace. @throws Error naming the setting that is wrong */
export function setPace(pace: Pace, values: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(values)) {
    if (!Object.hasOwn(pace, name)) {
      throw new Error(`unknown setting '${name}': there are ${Object.keys(pace).join(', ')}`);
    }
    if (typeof value !== 'number' || !(value >= 0)) {
      throw new Error(`${name}: expected milliseconds, got ${JSON.stringify(value)}`);
    }
  }
  Object.assign(pace, values);
}
