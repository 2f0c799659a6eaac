import { EXIT } from '../../src/process/exit-codes.ts';
import type { Heartbeat } from '../../src/protocol/index.ts';
import type { FakeMachine, FakeProvider } from '../support/fakes/fake-provider.ts';
import { Random } from '../support/random.ts';
import type { FleetPlan } from './plan.ts';
import { PlayedWorker, type WorkerWorld } from './played-worker.ts';
import { FATE_VARIABLE } from './rollout-plan.ts';
import { logNormal } from './trace.ts';

/** Of sound starts. */
const FAILS = 0.05;
const HANGS = 0.03;

/** Of a version that dies while it serves: before it is proved. */
const DIES_AFTER_MS = 40_000;

const BEAT_EVERY_MS = 10_000;
/** Of one slot. */
const TOKENS_PER_SECOND = 40;

interface MachinesWorld extends WorkerWorld {
  /** Whether the token that a launch was given is still good. */
  mayRegister(name: string): boolean;
  heartbeat(beat: Heartbeat): void;
}

interface Container {
  startedAt: number;
  /** When it comes to which step, epoch ms; infinite: never. */
  registers: number;
  ready: number;
  ends: number;
  exitCode: number;
  awayUntil: number;
  /** Its next heartbeat. */
  beatsAt: number;
  worker: PlayedWorker;
}

/** What runs on the machines of the providers: containers that load a model, dial the queue, and end. */
export class Machines {
  readonly #plan: FleetPlan;
  readonly #world: MachinesWorld;
  readonly #providers: readonly FakeProvider[];
  readonly #containers = new Map<string, Container>();
  /** Pools whose newest start hangs. The one after it does not: the scheduler promises to get over one in a row. */
  readonly #hung = new Set<string>();
  /** The names of machines whose workers were told that they are taken away. */
  readonly #noticed = new Set<string>();

  constructor(plan: FleetPlan, providers: readonly FakeProvider[], world: MachinesWorld) {
    this.#plan = plan;
    this.#providers = providers;
    this.#world = world;
  }

  /** Everything that happens until now. */
  pass(now: number): void {
    for (const [index, provider] of this.#providers.entries()) {
      for (const machine of provider.machines) {
        const key = `${index} ${machine.id}`;
        if (machine.gone !== null || provider.stateOf(machine) !== 'running') {
          this.#leave(key);
        } else if (!machine.name.startsWith('wv-foreign')) this.#step(provider, machine, key, now);
      }
    }
  }

  /** One that serves loses its connection for a while. */
  sendAway(until: number): void {
    const container = [...this.#containers.values()].find(({ worker }) => worker.isConnected);
    if (!container) return;
    container.awayUntil = until;
    container.worker.hangUp();
  }

  /** Every worker loses its connection, and dials again. */
  redialAll(): void {
    for (const { worker } of this.#containers.values()) worker.hangUp();
  }

  /** The worker on a machine; null: there is none. */
  workerOn(machine: FakeMachine): PlayedWorker | null {
    const index = this.#providers.findIndex(({ machines }) => machines.includes(machine));
    return this.#containers.get(`${index} ${machine.id}`)?.worker ?? null;
  }

  /** A machine is about to be taken away, and its worker, if there is one, is told. */
  notice(machine: FakeMachine): void {
    const worker = this.workerOn(machine);
    if (!worker) return;
    this.#noticed.add(machine.name);
    worker.notice();
  }

  /** Whether a worker was told that its machine is taken away: it takes no jobs by itself. */
  wasNoticed(name: string): boolean {
    return this.#noticed.has(name);
  }

  #leave(key: string): void {
    this.#containers.get(key)?.worker.die();
    this.#containers.delete(key);
  }

  #step(provider: FakeProvider, machine: FakeMachine, key: string, now: number): void {
    const { name, env } = machine;
    let container = this.#containers.get(key);
    if (container?.startedAt !== machine.startedAt) {
      this.#leave(key);
      container = this.#draw(machine, key);
      this.#containers.set(key, container);
    }
    const { worker } = container;
    if (now >= container.ends) {
      provider.end(machine, container.exitCode, 'the container ended');
      return this.#leave(key);
    }
    if (now < container.registers || now < container.awayUntil) return;
    if (worker.isConnected || this.#world.mayRegister(name)) {
      worker.offer(now >= container.ready ? Number(env.CASOLA_MAX_JOBS) : 0);
    }
    if (now >= container.beatsAt) {
      container.beatsAt = now + BEAT_EVERY_MS;
      this.#world.heartbeat({
        instance_id: name,
        worker_id: name,
        config_id: String(env.CASOLA_CONFIG_ID),
        status: now >= container.ready ? 'running' : 'starting',
        tokens_per_second: worker.holds * TOKENS_PER_SECOND,
      });
    }
  }

  #draw({ name, startedAt, env }: FakeMachine, key: string): Container {
    const random = new Random(this.#plan.seed, `container ${name} ${key} ${startedAt}`);
    const pool = String(env.CASOLA_CONFIG_ID);
    const soundness = this.#plan.soundness[pool];
    const takes = logNormal(random, this.#plan.start, 0.25) * 1000;
    const never = Number.POSITIVE_INFINITY;
    const sound: Container = {
      startedAt,
      registers: startedAt + takes / 3,
      ready: startedAt + takes,
      ends: never,
      exitCode: 0,
      awayUntil: 0,
      beatsAt: 0,
      worker: new PlayedWorker(this.#world, name, pool, `${key} ${startedAt}`),
    };
    const failed = { ...sound, ready: never, ends: startedAt + takes / 2 };
    if (soundness === 'bad_model') return { ...failed, exitCode: EXIT.badModel };
    if (soundness === 'broken') return { ...failed, exitCode: EXIT.engineFailedToStart };
    switch (env[FATE_VARIABLE]) {
      case 'slow':
        return { ...sound, registers: startedAt + takes, ready: startedAt + 3 * takes };
      case 'never_registers':
        return { ...sound, registers: never, ready: never };
      case 'dies_at_first_token':
        return { ...failed, ends: startedAt + takes, exitCode: EXIT.engineFailedToStart };
      case 'dies_serving':
        return { ...sound, ends: startedAt + takes + DIES_AFTER_MS, exitCode: EXIT.engineFailedToStart };
      case 'garbage':
        sound.worker.fails = true;
    }
    if (random.chance(FAILS)) return { ...failed, exitCode: EXIT.engineFailedToStart };
    if (this.#hung.delete(pool) || !random.chance(HANGS)) return sound;
    this.#hung.add(pool);
    return { ...sound, registers: never, ready: never };
  }
}
