import { type Accidents, NO_ACCIDENTS } from './accidents.ts';

/** A machine as the provider has it. Times are in epoch ms by the true clock: `timeOf` gives the provider's. */
export interface FakeMachine {
  id: string;
  name: string;
  instance_type: string;
  env: Record<string, string>;
  /** US dollars an hour. */
  price: number;
  createdAt: number;
  /** The time at which the newest container starts; infinite: never. */
  startedAt: number;
  /** The end of the container; cleared when the provider starts it again. */
  ended: { at: number; exitCode: number; detail: string } | null;
  /** Created but not started, because of an error. */
  isStopped: boolean;
  /** Stopped by its provider, which needs its place: a spot machine. */
  isTakenBack: boolean;
  /** The time of the order to end, and of the end that follows; infinite: never. */
  leaving: { since: number; until: number } | null;
  /** The end of the machine, and who ended it. */
  gone: { at: number; by: 'us' | 'itself' } | null;
  /** The rest of the request, for fakes that answer with it. */
  request: unknown;
}

export type MachineState = 'starting' | 'running' | 'ended' | 'stopped' | 'odd';

/** How a call failed; null: it did not. `down`: it is not answered. */
export type CallFault = { fault: 'throttled'; retryAfterMs: number } | { fault: 'down' } | null;

export type CreateReply =
  | { reply: 'created'; machine: FakeMachine }
  | { reply: 'no_capacity' }
  | { reply: 'no_money' }
  /** A 5xx: the machine exists. */
  | { reply: 'failed' }
  /** An error that names the machine, which exists and is stopped. */
  | { reply: 'created_with_error'; machine: FakeMachine }
  /** Names are unique here, and this one is taken. */
  | { reply: 'name_taken'; machine: FakeMachine };

export interface NewMachine {
  name: string;
  instance_type: string;
  env: Record<string, string>;
  /** US dollars an hour, as for a spot machine; left out: the price of the instance type. */
  price?: number | undefined;
  request?: unknown;
}

/** The time until a container that ended runs again, if restarts never end, ms. */
const RESTART_MS = 5000;

/**
 * The machines of a provider that exists only here, with its accidents. Fakes of real providers put their own HTTP in
 * front of it; `FakeDriver` is a driver right over it, for tests of the launcher and for the simulation.
 */
export class FakeProvider {
  readonly accidents: Accidents = { ...NO_ACCIDENTS };
  /** US dollars an hour by instance type; a kind that is missing costs 1. */
  readonly prices = new Map<string, number>();
  /** All that ever existed, in the order of creation. */
  readonly machines: FakeMachine[] = [];
  readonly #clock: { now(): number };
  readonly #namesAreUnique: boolean;
  readonly #lastCalls = new Map<string, number>();

  constructor(clock: { now(): number }, { namesAreUnique = false } = {}) {
    this.#clock = clock;
    this.#namesAreUnique = namesAreUnique;
  }

  /** The machines that exist now, whatever their state: each costs money. */
  get alive(): FakeMachine[] {
    return this.#now().filter(({ gone }) => gone === null);
  }

  /** An instant as the provider's clock tells it, epoch ms. */
  timeOf(at: number): number {
    return at + this.accidents.clock_skew_ms;
  }

  /** To be asked at the beginning of each call. @param kind of call: `create`, `list`, `destroy`, … */
  faultOf(kind: string): CallFault {
    const { accidents } = this;
    if (accidents.is_down) return { fault: 'down' };
    const now = this.#clock.now();
    const waitMs = (this.#lastCalls.get(kind) ?? Number.NEGATIVE_INFINITY) + accidents.min_interval_ms - now;
    if (waitMs > 0) return { fault: 'throttled', retryAfterMs: waitMs };
    if (this.#happens('throttled')) return { fault: 'throttled', retryAfterMs: 1000 };
    this.#lastCalls.set(kind, now);
    return null;
  }

  create({ name, instance_type, env, price, request = null }: NewMachine): CreateReply {
    const taken = this.#namesAreUnique && this.alive.find((machine) => machine.name === name);
    if (taken) return { reply: 'name_taken', machine: taken };
    if (this.accidents.no_money) return { reply: 'no_money' };
    if (this.#happens('no_capacity')) return { reply: 'no_capacity' };
    const now = this.#clock.now();
    const machine: FakeMachine = {
      id: `fake-${this.machines.length + 1}`,
      name,
      instance_type,
      env,
      price: price ?? this.prices.get(instance_type) ?? 1,
      createdAt: now,
      startedAt: this.accidents.stuck_loading
        ? Number.POSITIVE_INFINITY
        : now + this.accidents.start_takes_ms,
      ended: null,
      isStopped: false,
      isTakenBack: false,
      leaving: null,
      gone: null,
      request,
    };
    this.machines.push(machine);
    if (this.#happens('created_but_5xx')) return { reply: 'failed' };
    if (!this.#happens('created_but_error')) return { reply: 'created', machine };
    machine.isStopped = true;
    return { reply: 'created_with_error', machine };
  }

  /** Returns the machines of a list, which shows them as they were `list_lag_ms` ago. */
  list(): FakeMachine[] {
    const at = this.#clock.now() - this.accidents.list_lag_ms;
    return this.#now().filter(({ createdAt, gone }) => createdAt <= at && (gone === null || gone.at > at));
  }

  /** Returns a machine that exists, without lag. */
  find(id: string): FakeMachine | undefined {
    return this.alive.find((machine) => machine.id === id);
  }

  /**
   * @param takesMs what its end takes where no accident makes it longer
   * @returns `leaving`: it is told to end; `failed`: a 5xx, and it is still there
   */
  destroy(id: string, takesMs = 0): 'destroyed' | 'leaving' | 'not_found' | 'failed' {
    const machine = this.find(id);
    if (!machine) return 'not_found';
    if (this.#happens('destroy_fails')) return 'failed';
    const since = this.#clock.now();
    machine.leaving ??= { since, until: since + Math.max(takesMs, this.accidents.end_takes_ms) };
    return this.find(id) ? 'leaving' : 'destroyed';
  }

  stateOf(machine: FakeMachine): MachineState {
    const now = this.#clock.now();
    this.#now();
    if (this.accidents.odd_state) return 'odd';
    if (machine.isStopped) return 'stopped';
    if (machine.isTakenBack) return 'ended';
    if (machine.ended && this.accidents.restarts_for_ever && now - machine.ended.at >= RESTART_MS) {
      machine.startedAt = machine.ended.at + RESTART_MS;
      machine.ended = null;
    }
    if (machine.ended) return 'ended';
    return now >= machine.startedAt ? 'running' : 'starting';
  }

  /** Ends a machine's container as if by itself. */
  end(machine: FakeMachine, exitCode: number, detail = ''): void {
    machine.ended = { at: this.#clock.now(), exitCode, detail };
  }

  /** Removes a machine without notice, as a spot machine that is taken back, or by somebody at the console. */
  vanish(machine: FakeMachine): void {
    machine.gone = { at: this.#clock.now(), by: 'itself' };
  }

  /** All that ever existed, as they are now. */
  #now(): FakeMachine[] {
    for (const machine of this.machines) {
      const { gone, leaving } = machine;
      if (gone || !leaving || leaving.until > this.#clock.now()) continue;
      machine.gone = { at: leaving.until, by: 'us' };
    }
    return this.machines;
  }

  #happens(
    accident: 'no_capacity' | 'created_but_5xx' | 'created_but_error' | 'throttled' | 'destroy_fails',
  ) {
    if (this.accidents[accident] <= 0) return false;
    this.accidents[accident]--;
    return true;
  }
}
