import { rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { sendJson } from './answers.ts';

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
