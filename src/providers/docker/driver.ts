import type { ProviderSpec } from '../../scheduler/provider-spec.ts';
import type { LaunchOutcome, ListedMachine } from '../../scheduler/rpc.ts';
import { type Driver, type DriverPorts, imageOf, type LaunchRequest, type MachineKey } from '../driver.ts';
import {
  type ContainerState,
  containerOf,
  Engine,
  EngineError,
  type FoundContainer,
  GPUS_LABEL,
  gpusOf,
  graceOf,
  type ListedContainer,
  NAME_LABEL,
  nameOf,
} from './engine.ts';

type DockerSpec = Extract<ProviderSpec, { driver: 'docker' }>;

const STATES: Record<string, ListedMachine['state']> = {
  created: 'starting',
  running: 'running',
  paused: 'running',
  restarting: 'starting',
  removing: 'ended',
  exited: 'ended',
  dead: 'ended',
};

/** A launch waits this many ms for its image, so that a refused image is reported at once. */
const PULL_WAIT_MS = 15_000;
const SHOWN_LINES = 15;

/** A launch whose image is being pulled. It has no container yet, but is listed. */
interface Pending {
  since: number;
  gpus: number[];
  progress: string;
  /** The reason why the launch will get no container; null: it still may get one. */
  failed: string | null;
  failedAt: number;
  pull: AbortController;
}

/**
 * A driver for the containers of one Docker daemon. A container's name is the idempotency key, and serves as its
 * external id: the daemon takes a name wherever it takes an id, and the name is known before the container exists.
 */
export class DockerDriver implements Driver {
  readonly #spec: DockerSpec;
  readonly #ports: DriverPorts;
  readonly #engine: Engine;
  readonly #pending = new Map<string, Pending>();
  #turn: Promise<unknown> = Promise.resolve();

  /** @throws UserError when the daemon's address cannot be read */
  constructor(spec: DockerSpec, ports: DriverPorts) {
    this.#spec = spec;
    this.#ports = ports;
    this.#engine = new Engine(spec.host, ports.env);
  }

  async launch(request: LaunchRequest): Promise<LaunchOutcome> {
    const { name } = request;
    try {
      if (this.#pending.has(name)) return launched(name);
      const found = request.may_exist ? await this.#engine.find(name) : null;
      return found ? await this.#adopt(name, found) : await this.#create(request);
    } catch (error) {
      return { kind: 'unknown', detail: noAnswer(error) };
    }
  }

  async list(prefix: string): Promise<ListedMachine[]> {
    try {
      const found = (await this.#engine.list(NAME_LABEL)).filter((one) => nameOf(one).startsWith(prefix));
      const shown = await Promise.all(found.map((one) => this.#shown(one)));
      const created = new Set(found.map(nameOf));
      const pending = [...this.#pending].filter(([name]) => name.startsWith(prefix) && !created.has(name));
      return [...shown.flatMap((machine) => machine ?? []), ...pending.map(shownPending)];
    } catch (error) {
      throw new Error(noAnswer(error));
    }
  }

  async terminate({ name }: MachineKey): Promise<LaunchOutcome> {
    try {
      this.#pending.get(name)?.pull.abort();
      // A container that is being created at this moment exists once its turn has ended.
      await this.#inTurn(async () => void this.#pending.delete(name));
      const [container] = await this.#engine.list(`${NAME_LABEL}=${name}`);
      if (!container) {
        const other = await this.#engine.find(name);
        return other ? { kind: 'unknown', detail: notOurs(name) } : { kind: 'terminated' };
      }
      await this.#engine.stop(name, graceOf(container));
      await this.#engine.remove(name);
      return { kind: 'terminated' };
    } catch (error) {
      return { kind: 'unknown', detail: noAnswer(error) };
    }
  }

  close(): void {
    for (const { pull } of this.#pending.values()) pull.abort();
  }

  /** Creates a container. GPUs are chosen and taken in one turn, so that no two launches choose the same. */
  #create(request: LaunchRequest): Promise<LaunchOutcome> {
    const { name } = request;
    const choose = async (): Promise<LaunchOutcome | number[]> => {
      const gpus = await this.#freeGpus(request.gpus);
      if (!gpus) return { kind: 'no_capacity', detail: this.#noGpus(request.gpus) };
      try {
        await this.#engine.create(name, containerOf(request, gpus, this.#spec));
        return await this.#start(name);
      } catch (error) {
        if (!(error instanceof EngineError)) throw error;
        const found = error.status === 409 ? await this.#engine.find(name) : null;
        if (found) return await this.#adopt(name, found);
        if (error.status !== 404) return refusal(error);
        this.#pending.set(name, this.#newPending(gpus));
        return gpus;
      }
    };
    return this.#inTurn(choose).then((chosen) =>
      Array.isArray(chosen) ? this.#pullAndCreate(request, chosen) : chosen,
    );
  }

  /**
   * Pulls the image and creates the container. Answers as soon as the pull has failed, or has taken a while: then the
   * pull goes on in the background.
   */
  async #pullAndCreate(request: LaunchRequest, gpus: number[]): Promise<LaunchOutcome> {
    const { name } = request;
    const { clock, log } = this.#ports;
    const pending = this.#pending.get(name);
    // The launch was terminated before its turn ended.
    if (!pending) return { kind: 'rejected', detail: 'it was terminated before it was launched' };
    log.info({ name, image: imageOf(request) }, 'pulling the image');
    const whole = this.#whole(request, gpus, pending);
    const late = Promise.withResolvers<null>();
    const timer = clock.setTimeout(() => late.resolve(null), PULL_WAIT_MS);
    const outcome = await Promise.race([whole, late.promise]);
    clock.clearTimeout(timer);
    if (outcome) {
      this.#pending.delete(name);
      return outcome;
    }
    void whole.then((end) => this.#endedLate(name, pending, end));
    return launched(name);
  }

  async #whole(request: LaunchRequest, gpus: number[], pending: Pending): Promise<LaunchOutcome> {
    const { name } = request;
    const tell = (text: string) => {
      pending.progress = text;
    };
    try {
      await this.#engine.pull(imageOf(request), tell, pending.pull.signal);
      return await this.#inTurn(async () => {
        pending.pull.signal.throwIfAborted();
        await this.#engine.create(name, containerOf(request, gpus, this.#spec));
        return await this.#start(name);
      });
    } catch (error) {
      if (!(error instanceof EngineError)) return { kind: 'unknown', detail: noAnswer(error) };
      return refusal(error, `the image ${imageOf(request)} cannot be had`);
    }
  }

  /** Takes the outcome of a launch that was answered long ago; if it failed, the next list reports that. */
  #endedLate(name: string, pending: Pending, outcome: LaunchOutcome): void {
    if (outcome.kind === 'launched') this.#pending.delete(name);
    else if ('detail' in outcome) {
      pending.failed = outcome.detail;
      pending.failedAt = this.#ports.clock.now();
    }
  }

  /**
   * Takes an existing container as the launch's own. A name is given once, so a container with our label is the
   * requested one.
   */
  async #adopt(name: string, { state, labels }: FoundContainer): Promise<LaunchOutcome> {
    if (labels[NAME_LABEL] !== name) return { kind: 'rejected', detail: notOurs(name) };
    return state.Status === 'created' ? await this.#start(name) : launched(name);
  }

  /** Starts a container, and removes it if that fails: missing GPUs and a missing runtime show only here. */
  async #start(name: string): Promise<LaunchOutcome> {
    try {
      await this.#engine.start(name);
      return launched(name);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      await this.#engine.remove(name);
      return { kind: 'rejected', detail: `the container cannot be started: ${error.message}` };
    }
  }

  async #shown(container: ListedContainer): Promise<ListedMachine | null> {
    const name = nameOf(container);
    const state = (await this.#engine.find(name))?.state;
    // The container was removed after it was listed.
    if (!state) return null;
    const shown = STATES[state.Status] ?? 'unknown';
    const hasEnded = shown === 'ended';
    return {
      external_id: name,
      name,
      state: shown,
      // If this driver is about to start the container, a repeated order of its launch does no harm.
      ...(state.Status === 'created' ? { unstarted: true } : {}),
      created_at: container.Created * 1000,
      started_at: timeOf(state.StartedAt),
      ended_at: hasEnded ? timeOf(state.FinishedAt) : null,
      price_per_hour: null,
      exit_code: state.Status === 'exited' ? state.ExitCode : null,
      detail: hasEnded ? await this.#lastWords(name, state) : null,
    };
  }

  async #lastWords(name: string, state: ContainerState): Promise<string | null> {
    const log = await this.#engine.log(name, SHOWN_LINES).catch(() => '');
    const killed = state.OOMKilled ? 'killed for lack of memory' : '';
    return [state.Error, killed, log].filter(Boolean).join('\n') || null;
  }

  /** Returns the indices of `count` free GPUs, or null if fewer are free. */
  async #freeGpus(count: number): Promise<number[] | null> {
    const all = this.#spec.gpus;
    // The spec names no GPUs, so workers get none.
    if (!all) return [];
    const containers = await this.#engine.list(GPUS_LABEL);
    const taken = containers.filter(({ State }) => STATES[State] !== 'ended').flatMap(gpusOf);
    const promised = [...this.#pending.values()].filter(({ failed }) => failed === null);
    const used = new Set([...taken, ...promised.flatMap(({ gpus }) => gpus)]);
    const free = all.filter((gpu) => !used.has(gpu));
    return free.length < count ? null : free.slice(0, count);
  }

  #noGpus(count: number): string {
    return `${count} of the ${this.#spec.gpus?.length ?? 0} GPUs listed under gpus are asked for, and fewer are free`;
  }

  #newPending(gpus: number[]): Pending {
    const since = this.#ports.clock.now();
    return { since, gpus, progress: '', failed: null, failedAt: 0, pull: new AbortController() };
  }

  /** Runs calls one after the other. */
  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(run);
    this.#turn = mine.catch(() => {});
    return mine;
  }
}

function shownPending([name, { since, progress, failed, failedAt }]: [string, Pending]): ListedMachine {
  return {
    external_id: name,
    name,
    state: failed === null ? 'starting' : 'ended',
    created_at: since,
    started_at: null,
    ended_at: failed === null ? null : failedAt,
    price_per_hour: null,
    exit_code: null,
    detail: failed ?? `pulling the image: ${progress}`,
  };
}

function timeOf(text: string): number | null {
  const at = Date.parse(text);
  // Docker gives a time in the year 1 for an event that has not happened.
  return at > 0 ? at : null;
}

function launched(name: string): LaunchOutcome {
  return { kind: 'launched', external_id: name, price_per_hour: null };
}

/**
 * Returns the outcome for an error of the daemon. A server error is temporary and tells nothing about the effect; any
 * other error is about the request.
 */
function refusal({ status, message }: EngineError, what?: string): LaunchOutcome {
  return { kind: status >= 500 ? 'unknown' : 'rejected', detail: what ? `${what}: ${message}` : message };
}

function notOurs(name: string): string {
  return `a container named ${name} was made by somebody else, and is left alone; remove it, or rename it`;
}

function noAnswer(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  const isAway = code === 'ENOENT' || code === 'ECONNREFUSED' || code === 'EACCES';
  return isAway ? `Docker does not answer: ${message}. Is it running, and may this user call it?` : message;
}
