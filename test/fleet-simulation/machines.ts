import { EXIT } from '../../src/process/exit-codes.ts';
import type { FakeMachine, FakeProvider } from '../../src/providers/fakes/fake-provider.ts';
import { Random } from '../simulation/random.ts';
import type { FleetPlan } from './plan.ts';
import type { QueueModel } from './queue-model.ts';
import { logNormal } from './trace.ts';

/** Of sound starts. */
const FAILS = 0.05;
const HANGS = 0.03;

interface Container {
  startedAt: number;
  /** When it comes to which step, epoch ms; infinite: never. */
  registers: number;
  ready: number;
  ends: number;
  exitCode: number;
  awayUntil: number;
}

/** What runs on the machines of the providers: containers that load a model, dial the queue, and end. */
export class Machines {
  readonly #plan: FleetPlan;
  readonly #queue: QueueModel;
  readonly #providers: readonly FakeProvider[];
  readonly #mayRegister: (name: string) => boolean;
  readonly #containers = new Map<string, Container>();

  constructor(
    plan: FleetPlan,
    queue: QueueModel,
    providers: readonly FakeProvider[],
    mayRegister: (name: string) => boolean,
  ) {
    this.#plan = plan;
    this.#queue = queue;
    this.#providers = providers;
    this.#mayRegister = mayRegister;
  }

  /** Everything that happens until now. */
  pass(now: number): void {
    for (const [index, provider] of this.#providers.entries()) {
      for (const machine of provider.machines) {
        const key = `${index} ${machine.id}`;
        if (machine.gone !== null || provider.stateOf(machine) !== 'running') {
          if (this.#containers.delete(key)) this.#leave(machine, key);
        } else this.#step(provider, machine, key, now);
      }
    }
  }

  /** One that serves loses its connection for a while. */
  sendAway(until: number): void {
    for (const [key, container] of this.#containers) {
      const session = [...this.#queue.sessions.values()].find(({ machine_id }) => machine_id === key);
      if (!session) continue;
      container.awayUntil = until;
      this.#queue.disconnect(session.worker_id);
      return;
    }
  }

  #leave({ name }: FakeMachine, key: string): void {
    if (this.#queue.sessions.get(name)?.machine_id === key) this.#queue.disconnect(name);
  }

  #step(provider: FakeProvider, machine: FakeMachine, key: string, now: number): void {
    const { name, env } = machine;
    let container = this.#containers.get(key);
    if (container?.startedAt !== machine.startedAt) {
      container = this.#draw(machine, key);
      this.#containers.set(key, container);
    }
    if (now >= container.ends) {
      provider.end(machine, container.exitCode, 'the container ended');
      this.#containers.delete(key);
      this.#leave(machine, key);
      return;
    }
    if (now < container.registers || now < container.awayUntil) return;
    const config_id = String(env.CASOLA_CONFIG_ID);
    const known = this.#queue.sessions.get(name);
    if (!known) {
      if (!this.#mayRegister(name)) return;
      this.#queue.connect({ worker_id: name, config_id, machine_id: key, slots: 0, connected_at: now });
    }
    const session = this.#queue.sessions.get(name)!;
    if (session.machine_id === key && now >= container.ready) {
      session.slots = Number(env.CASOLA_MAX_JOBS);
    }
  }

  #draw({ name, startedAt, env }: FakeMachine, key: string): Container {
    const random = new Random(this.#plan.seed, `container ${name} ${key} ${startedAt}`);
    const soundness = this.#plan.soundness[String(env.CASOLA_CONFIG_ID)];
    const takes = logNormal(random, this.#plan.start, 0.25) * 1000;
    const never = Number.POSITIVE_INFINITY;
    const sound: Container = {
      startedAt,
      registers: startedAt + takes / 3,
      ready: startedAt + takes,
      ends: never,
      exitCode: 0,
      awayUntil: 0,
    };
    const failed = { ...sound, ready: never, ends: startedAt + takes / 2 };
    if (soundness === 'bad_model') return { ...failed, exitCode: EXIT.badModel };
    if (soundness === 'broken') return { ...failed, exitCode: EXIT.engineFailedToStart };
    if (random.chance(FAILS)) return { ...failed, exitCode: EXIT.engineFailedToStart };
    if (random.chance(HANGS)) return { ...sound, registers: never, ready: never };
    return sound;
  }
}
