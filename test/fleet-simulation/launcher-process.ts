import { Launcher } from '../../src/launcher/launcher.ts';
import type { Driver } from '../../src/providers/driver.ts';
import type { LauncherAnswer, LauncherReport } from '../../src/scheduler/rpc.ts';
import type { Timeline } from '../simulation/timeline.ts';
import { FakeDriver } from '../support/fakes/fake-driver.ts';
import type { FakeProvider } from '../support/fakes/fake-provider.ts';
import type { Random } from '../support/random.ts';
import { clockOf } from './clock.ts';

export interface LauncherWorld {
  timeline: Timeline;
  random: Random;
  /** By the name of their driver in the spec. */
  providers: Record<string, FakeProvider>;
  sync(report: LauncherReport): Promise<LauncherAnswer>;
  /** Launches after whose effect it dies; the chance of each list to be empty and say that it is whole. */
  calls: { launcherDies: number; listIsEmpty: number };
  /** It has killed itself. */
  died(): void;
}

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

/** The real launcher with drivers for providers that exist only here; calls to them take their time. */
export class LauncherProcess {
  #isDead = false;
  readonly #world: LauncherWorld;

  constructor(world: LauncherWorld) {
    this.#world = world;
    const { timeline, random } = world;
    const launcher = new Launcher(
      {
        clock: clockOf(timeline, () => this.#isDead),
        sync: (report) => this.#alive(world.sync(report)),
        makeDriver: async ({ driver }) => this.#slow(new FakeDriver(world.providers[driver]!)),
        random: () => random.next(),
        log: SILENT,
      },
      {
        drivers: Object.keys(world.providers),
        host: 'here',
        road: { url: 'https://queue.example.com', queueId: 'vllm-queue' },
        env: {},
        endsMachines: false,
      },
    );
    void launcher.run(new AbortController().signal);
  }

  /** As by `kill -9`: what it has sent has its effect, and nobody hears of it. */
  kill(): void {
    this.#isDead = true;
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** The effect is somewhere between call and answer. */
  #slow(driver: Driver): Driver {
    const call = async <T>(meanMs: number, act: () => Promise<T>): Promise<T> => {
      await this.#pause(meanMs);
      const answer = await act();
      await this.#pause(meanMs);
      return answer;
    };
    const { calls, random } = this.#world;
    return {
      launch: (request) =>
        call(3000, async () => {
          const outcome = await driver.launch(request);
          if (calls.launcherDies > 0) {
            calls.launcherDies -= 1;
            this.#world.died();
          }
          return outcome;
        }),
      list: (prefix) =>
        call(300, async () => {
          const machines = await driver.list(prefix);
          return calls.listIsEmpty > 0 && random.chance(calls.listIsEmpty) ? [] : machines;
        }),
      terminate: (machine) => call(1000, () => driver.terminate(machine)),
    };
  }

  async #pause(meanMs: number): Promise<void> {
    await this.#alive(this.#world.timeline.sleep(this.#world.random.wait(meanMs, 15_000)));
  }

  /** What a dead process waits for never comes. */
  #alive<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      promise.then(
        (value) => this.#isDead || resolve(value),
        (error) => this.#isDead || reject(error),
      );
    });
  }
}
