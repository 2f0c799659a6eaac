import { type EngineClient, readText } from '../../engine/client/types.ts';
import type { Log } from '../../process/log.ts';
import {
  type Adapter,
  type AdapterState,
  engineMessage,
  jsonOrText,
  type ModelCard,
} from '../../protocol/index.ts';
import type { Clock } from '../clock.ts';
import { JobFailure } from '../failure.ts';

/**
 * An adapter that could not be loaded is not tried again for this long, ms: each try costs its job, and may cost a
 * download.
 */
const TRY_AGAIN_AFTER_MS = 30_000;

export interface AdaptersPorts {
  clock: Pick<Clock, 'now'>;
  engine: Pick<EngineClient, 'request'>;
  log: Log;
  /**
   * Returns the folder of this machine that holds the adapter, after downloading it if necessary.
   * @throws Error with the reason, for people
   */
  folderOf(adapter: Adapter): Promise<string>;
}

/** An adapter that the engine has loaded. */
interface Loaded {
  /** The number of jobs that need the adapter now. */
  users: number;
  /**
   * Whether the adapter is unloaded as soon as no job uses it; a job that comes for it now waits as if it were not
   * loaded.
   */
  isLeaving: boolean;
}

/** A job that needs an adapter which is not loaded. */
interface InLine {
  name: string;
  granted(release: () => void): void;
  refused(error: Error): void;
}

/**
 * The LoRA adapters of an engine. Each is loaded when a job first needs it, one after the other. If there is no room,
 * the least recently used adapter is unloaded, but never one that a job uses. Jobs whose adapter is not loaded wait in
 * the order in which they came. So that they do not wait for ever, the adapter that is to make room takes no new jobs.
 */
export class Adapters {
  readonly #ports: AdaptersPorts;
  readonly #list: ReadonlyMap<string, Adapter>;
  readonly #room: number;
  /** The loaded adapters by name, the least recently used first. */
  #loaded = new Map<string, Loaded>();
  readonly #failed = new Map<string, { reason: string; until: number }>();
  #line: InLine[] = [];
  #isBusy = false;
  #changed: (state: AdapterState) => void = () => {};

  /** @param room the number of adapters that the engine has loaded at once */
  constructor(ports: AdaptersPorts, list: readonly Adapter[], room: number) {
    this.#ports = ports;
    this.#list = new Map(list.map((adapter) => [adapter.name, adapter]));
    this.#room = room;
  }

  get state(): AdapterState {
    return {
      names: [...this.#list.keys()],
      loaded: [...this.#loaded.keys()],
      room: this.#room,
      failed: [...this.#failed].map(([name, { reason }]) => ({ name, reason: reason.slice(0, 1000) })),
    };
  }

  has(name: string): boolean {
    return this.#list.has(name);
  }

  /** Sets the listener. @param changed called when an adapter was loaded or unloaded, or could not be loaded */
  listen(changed: (state: AdapterState) => void): void {
    this.#changed = changed;
  }

  /**
   * Sets which adapters are loaded, by the models that the engine serves when it is healthy for the first time or
   * again.
   * @returns all names that callers may ask for, and the card of each; the engine's own model comes first
   */
  engineServes(
    names: readonly string[],
    cards: readonly ModelCard[],
  ): { names: string[]; cards: ModelCard[] } {
    const before = this.#loaded;
    this.#failed.clear();
    this.#loaded = new Map();
    for (const name of [...before.keys(), ...names]) {
      if (this.has(name) && names.includes(name))
        this.#loaded.set(name, before.get(name) ?? { users: 0, isLeaving: false });
    }
    this.#changed(this.state);
    void this.#step();
    const isOwn = (name: string) => !this.has(name);
    const own = names.filter(isOwn);
    const created = Math.floor(this.#ports.clock.now() / 1000);
    // Callers do not see where an adapter lies on the machine.
    const cardOf = (id: string) => ({
      id,
      object: 'model',
      created,
      owned_by: 'vllm',
      parent: own[0] ?? null,
    });
    const ownCards = cards.filter(({ id }) => isOwn(id));
    const listed = [...this.#list.keys()];
    return { names: [...own, ...listed], cards: [...ownCards, ...listed.map(cardOf)] };
  }

  /**
   * Loads an adapter, if it is not loaded yet, and keeps it until it is released.
   * @throws JobFailure `adapter_failed`, which names the adapter and the reason; the signal's reason when it is aborted
   */
  async use(name: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const loaded = this.#loaded.get(name);
    if (loaded && !loaded.isLeaving) return this.#hold(name, loaded);
    const failed = this.#failed.get(name);
    if (failed && this.#ports.clock.now() < failed.until) throw failureOf(name, failed.reason);
    const { promise, resolve, reject } = Promise.withResolvers<() => void>();
    const entry: InLine = { name, granted: resolve, refused: reject };
    this.#line.push(entry);
    const leave = () => {
      this.#line = this.#line.filter((one) => one !== entry);
      reject(signal.reason as Error);
    };
    signal.addEventListener('abort', leave, { once: true });
    void this.#step();
    try {
      return await promise;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  #hold(name: string, loaded: Loaded): () => void {
    loaded.users += 1;
    this.#used(name, loaded);
    return () => {
      loaded.users -= 1;
      this.#used(name, loaded);
      void this.#step();
    };
  }

  /** Moves an adapter to the end, as the most recently used. */
  #used(name: string, loaded: Loaded): void {
    if (this.#loaded.get(name) !== loaded) return;
    this.#loaded.delete(name);
    this.#loaded.set(name, loaded);
  }

  /** Serves the job that waits first, until none waits or a running one must end first. */
  async #step(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    try {
      for (let next = this.#next(); next !== null; next = this.#next()) await this.#do(next);
    } finally {
      this.#isBusy = false;
    }
  }

  /**
   * Returns the next step for the job that waits first; null: no job waits, or the adapter that is to make room is in
   * use.
   */
  #next(): { load: string } | { unload: string } | null {
    for (;;) {
      const [first] = this.#line;
      if (!first) return null;
      const { name } = first;
      const loaded = this.#loaded.get(name);
      if (loaded && !loaded.isLeaving) {
        this.#line.shift();
        first.granted(this.#hold(name, loaded));
        continue;
      }
      if (!loaded && this.#loaded.size < this.#room) return { load: name };
      const [victim, entry] = this.#victim();
      entry.isLeaving = true;
      return entry.users > 0 ? null : { unload: victim };
    }
  }

  /**
   * Returns the adapter that makes room: the one that was chosen before, else the one that has been unused for longest.
   */
  #victim(): [string, Loaded] {
    const all = [...this.#loaded];
    const is = (test: (loaded: Loaded) => boolean) => all.find(([, loaded]) => test(loaded));
    return is(({ isLeaving }) => isLeaving) ?? is(({ users }) => users === 0) ?? all[0]!;
  }

  async #do(next: { load: string } | { unload: string }): Promise<void> {
    const { engine, log } = this.#ports;
    if ('unload' in next) {
      const problem = await unloadAdapter(engine, next.unload).catch((error: Error) => error.message);
      if (problem === null) log.info({ adapter: next.unload }, 'adapter unloaded');
      else log.warn({ adapter: next.unload, problem }, 'the engine did not unload an adapter');
      this.#loaded.delete(next.unload);
      return this.#changed(this.state);
    }
    const name = next.load;
    const startedMs = this.#ports.clock.now();
    const reason = await this.#load(name).catch((error: Error) => error.message || String(error));
    if (reason === null) {
      log.info({ adapter: name, took_ms: this.#ports.clock.now() - startedMs }, 'adapter loaded');
      this.#failed.delete(name);
      this.#loaded.set(name, { users: 0, isLeaving: false });
    } else {
      log.warn({ adapter: name, problem: reason }, 'an adapter could not be loaded');
      this.#failed.set(name, { reason, until: this.#ports.clock.now() + TRY_AGAIN_AFTER_MS });
      const refused = this.#line.filter((entry) => entry.name === name);
      this.#line = this.#line.filter((entry) => entry.name !== name);
      for (const entry of refused) entry.refused(failureOf(name, reason));
    }
    this.#changed(this.state);
  }

  /** Loads an adapter. @returns the reason why it was not loaded, or null once it is */
  async #load(name: string): Promise<string | null> {
    const folder = await this.#ports.folderOf(this.#list.get(name)!);
    return await loadAdapter(this.#ports.engine, name, folder);
  }
}

function failureOf(name: string, reason: string): JobFailure {
  const message = `the adapter "${name}" could not be loaded: ${reason}`;
  return new JobFailure({ message, code: 'adapter_failed', retryable: true });
}

/** Loading reads a file and copies it to the GPU; an engine that takes longer than this hangs, ms. */
const LOAD_WITHIN_MS = 120_000;

const NO_ROUTE =
  'the engine has no route to load adapters: vLLM needs --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True';

type Engine = Pick<EngineClient, 'request'>;

/**
 * Loads an adapter by the route that vLLM 0.32 has for it.
 * @param folder the adapter's folder on the engine's machine
 * @returns the reason why the adapter was not loaded; null: it is loaded, now or already before
 */
async function loadAdapter(engine: Engine, name: string, folder: string): Promise<string | null> {
  const { status, text } = await post(engine, 'load', { lora_name: name, lora_path: folder });
  if (status < 300) return null;
  const said = messageIn(text);
  if (status === 400 && said.includes('has already been loaded')) return null;
  return isMissingRoute(status, text) ? NO_ROUTE : said;
}

/**
 * Unloads an adapter by the route that vLLM 0.32 has for it.
 * @returns the reason why the adapter was not unloaded; null: it is unloaded, or was not loaded
 */
async function unloadAdapter(engine: Engine, name: string): Promise<string | null> {
  const { status, text } = await post(engine, 'unload', { lora_name: name });
  if (status < 300) return null;
  if (isMissingRoute(status, text)) return NO_ROUTE;
  return status === 404 ? null : messageIn(text);
}

async function post(
  engine: Engine,
  what: 'load' | 'unload',
  body: object,
): Promise<{ status: number; text: string }> {
  const answer = await engine.request({
    method: 'POST',
    path: `/v1/${what}_lora_adapter`,
    contentType: 'application/json',
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(LOAD_WITHIN_MS),
  });
  return { status: answer.status, text: await readText(answer.body) };
}

/** Recognises FastAPI's own answer, which says nothing about an adapter. */
function isMissingRoute(status: number, text: string): boolean {
  return (status === 404 || status === 405) && /"detail"\s*:\s*"(?:Not Found|Method Not Allowed)"/.test(text);
}

function messageIn(text: string): string {
  return engineMessage(jsonOrText(text)) ?? 'the engine did not say why';
}
