import { boundaryOf, formFields, type Json, jsonFields, parseJsonBytes } from '../../protocol/index.ts';
import type { Adapters } from '../adapters/adapters.ts';
import type { RunEngine } from './traced-engine.ts';

type Body = Json | undefined;

/**
 * The engine as one attempt requests it: an adapter that a request names as its model is loaded before the request is
 * sent, and stays loaded until the attempt is over.
 */
export class AdaptedEngine implements RunEngine {
  readonly #engine: RunEngine;
  readonly #adapters: Adapters;
  #held: (() => void)[] = [];

  constructor(engine: RunEngine, adapters: Adapters) {
    this.#engine = engine;
    this.#adapters = adapters;
  }

  isHealthy(timeoutMs: number): Promise<boolean> {
    return this.#engine.isHealthy(timeoutMs);
  }

  request(call: Parameters<RunEngine['request']>[0]): ReturnType<RunEngine['request']> {
    const name = modelIn(call.body, call.contentType);
    // For any other model no turn of the event loop passes: a caller waits for each turn.
    if (name === null || !this.#adapters.has(name)) return this.#engine.request(call);
    return this.#adapters.use(name, call.signal).then((release) => {
      this.#held.push(release);
      return this.#engine.request(call);
    });
  }

  /** Releases the adapters of an attempt that is over. */
  release(): void {
    for (const release of this.#held) release();
    this.#held = [];
  }
}

/** Returns the model that a body names; null: none. */
function modelIn(body: Body, contentType: string | undefined): string | null {
  if (body === undefined) return null;
  const boundary = boundaryOf(contentType);
  if (typeof body !== 'string' && boundary !== null) {
    const value = formFields(body, boundary).get('model');
    return value === undefined ? null : new TextDecoder().decode(value);
  }
  try {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const { model } = jsonFields(bytes, ['model'], Number.POSITIVE_INFINITY);
    const name = model === undefined ? null : parseJsonBytes(model);
    return typeof name === 'string' ? name : null;
  } catch {
    // The engine reports the fault of the body.
    return null;
  }
}
