import type { Driver, LaunchRequest, MachineKey } from '../../../src/providers/driver.ts';
import type { LaunchOutcome, ListedMachine } from '../../../src/scheduler/rpc.ts';
import type { FakeMachine, FakeProvider, MachineState } from './fake-provider.ts';

const STATES: Record<MachineState, ListedMachine['state']> = {
  starting: 'starting',
  running: 'running',
  ended: 'ended',
  stopped: 'ended',
  odd: 'unknown',
};

/**
 * A driver for a provider that exists only here. It shows what every driver does, without any HTTP: the contract of
 * drivers is tested on it too.
 */
export class FakeDriver implements Driver {
  readonly #provider: FakeProvider;

  constructor(provider: FakeProvider) {
    this.#provider = provider;
  }

  async launch(request: LaunchRequest): Promise<LaunchOutcome> {
    try {
      if (request.may_exist) {
        const [found] = this.#named(request.name);
        if (found) return launched(found);
      }
      this.#call('create');
    } catch (error) {
      return unknown(error);
    }
    const { name, instance_type, env, spot = false, price_per_hour } = request;
    const price = spot ? (price_per_hour ?? undefined) : undefined;
    const created = this.#provider.create({ name, instance_type, env, price, request: { spot } });
    switch (created.reply) {
      case 'created':
      case 'name_taken':
        return launched(created.machine);
      case 'created_with_error':
        return this.#takeBack(created.machine);
      case 'no_capacity':
        return { kind: 'no_capacity', detail: `no ${instance_type} is free` };
      case 'no_money':
        return { kind: 'rejected', detail: 'the balance is empty' };
      case 'failed':
        return { kind: 'unknown', detail: 'HTTP 500' };
    }
  }

  async list(prefix: string): Promise<ListedMachine[]> {
    this.#call('list');
    return this.#provider
      .list()
      .filter(({ name }) => name.startsWith(prefix))
      .map((machine) => this.#shown(machine));
  }

  async terminate({ name, external_id }: MachineKey): Promise<LaunchOutcome> {
    try {
      const ids = external_id === null ? this.#named(name).map(({ id }) => id) : [external_id];
      let isThere = false;
      for (const id of ids) {
        this.#call('destroy');
        const reply = this.#provider.destroy(id);
        if (reply === 'failed') return { kind: 'unknown', detail: 'HTTP 500' };
        isThere ||= reply === 'leaving';
      }
      return { kind: isThere ? 'terminating' : 'terminated' };
    } catch (error) {
      return unknown(error);
    }
  }

  async prices(instance_types: string[]): Promise<{ instance_type: string; price_per_hour: number }[]> {
    this.#call('prices');
    return instance_types.flatMap((instance_type) => {
      const price = this.#provider.prices.get(instance_type);
      return price === undefined ? [] : [{ instance_type, price_per_hour: price }];
    });
  }

  /** @throws Error where the provider does not answer, or answers 429 */
  #call(kind: string): void {
    const fault = this.#provider.faultOf(kind);
    if (fault) throw new Error(fault.fault === 'down' ? 'no answer' : 'HTTP 429');
  }

  #named(wanted: string): FakeMachine[] {
    this.#call('list');
    return this.#provider.list().filter(({ name }) => name === wanted);
  }

  /** An error came with a machine: it is ended, so that nothing is left behind the refusal. */
  #takeBack({ id }: FakeMachine): LaunchOutcome {
    const detail = 'it was created with an error';
    return this.#provider.destroy(id) === 'destroyed'
      ? { kind: 'rejected', detail }
      : { kind: 'unknown', detail };
  }

  #shown(machine: FakeMachine): ListedMachine {
    const state = STATES[this.#provider.stateOf(machine)];
    const { id, name, createdAt, startedAt, ended, price } = machine;
    const timeOf = (at: number) => this.#provider.timeOf(at);
    return {
      external_id: id,
      name,
      state,
      ...(machine.isTakenBack ? { preempted: true } : {}),
      created_at: timeOf(createdAt),
      started_at: state === 'starting' || state === 'unknown' ? null : timeOf(startedAt),
      ended_at: ended ? timeOf(ended.at) : null,
      price_per_hour: price,
      exit_code: ended?.exitCode ?? null,
      detail: ended?.detail || null,
    };
  }
}

function launched({ id, price }: FakeMachine): LaunchOutcome {
  return { kind: 'launched', external_id: id, price_per_hour: price };
}

function unknown(error: unknown): LaunchOutcome {
  return { kind: 'unknown', detail: (error as Error).message };
}
