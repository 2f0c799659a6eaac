import { Launcher } from '../../src/launcher/launcher.ts';
import type { LauncherSettings } from '../../src/launcher/ports.ts';
import type { Driver, LaunchRequest } from '../../src/providers/driver.ts';
import { ProviderSpec } from '../../src/scheduler/provider-spec.ts';
import type {
  LauncherAnswer,
  LauncherReport,
  LaunchOutcome,
  Order,
  OrderResult,
} from '../../src/scheduler/rpc.ts';
import { PoolSpec } from '../../src/scheduler/spec.ts';
import { FakeDriver } from './fakes/fake-driver.ts';
import { FakeProvider } from './fakes/fake-provider.ts';
import { VirtualClock } from './virtual-clock.ts';

const PREFIX = 'wv-abc123-';
type LaunchOrder = Extract<Order, { kind: 'launch' }>;

/** A launcher with one provider that exists only here, and a queue that gives what a test has put into `orders`. */
export class LauncherHarness {
  readonly clock = new VirtualClock();
  readonly provider = new FakeProvider(this.clock);
  readonly reports: LauncherReport[] = [];
  readonly lines: string[] = [];
  /** Given out, once, at the next sync. */
  orders: Order[] = [];
  /** The fault that the queue has at a sync instead of answering. */
  queueFault: (() => never) | null = null;
  #driver: Driver = new FakeDriver(this.provider);
  settings: LauncherSettings = {
    drivers: ['runpod'],
    host: 'here',
    road: { url: 'https://queue.example.com', queueId: 'vllm-queue' },
    env: { HF_TOKEN: 'hf-secret-value' },
    endsMachines: false,
  };
  providers: LauncherAnswer['providers'] = [
    {
      name: 'cloud',
      spec: ProviderSpec.parse({ driver: 'runpod', api_key_variable: 'K' }),
      instance_types: ['h100'],
    },
  ];
  readonly #stopped = new AbortController();
  #run: Promise<void> | undefined;

  start(): this {
    const log = (fields: object, message: string) =>
      void this.lines.push(`${message} ${JSON.stringify(fields)}`);
    const launcher = new Launcher(
      {
        clock: this.clock,
        sync: async (report) => this.#answer(report),
        makeDriver: async () => this.#driver,
        random: () => 0.5,
        log: { debug: log, info: log, warn: log, error: log },
      },
      this.settings,
    );
    this.#run = launcher.run(this.#stopped.signal);
    return this;
  }

  /** The driver with another launch. */
  withLaunch(launch: (request: LaunchRequest, driver: Driver) => Promise<LaunchOutcome>): void {
    const driver = this.#driver;
    this.#driver = {
      launch: (request) => launch(request, driver),
      list: (prefix) => driver.list(prefix),
      terminate: (machine) => driver.terminate(machine),
    };
  }

  launchesTake(ms: number): void {
    this.withLaunch(async (request, driver) => {
      await new Promise<void>((done) => this.clock.setTimeout(done, ms));
      return await driver.launch(request);
    });
  }

  terminationsTake(ms: number): void {
    const driver = this.#driver;
    this.#driver = {
      launch: (request) => driver.launch(request),
      list: (prefix) => driver.list(prefix),
      terminate: async (machine) => {
        await new Promise<void>((done) => this.clock.setTimeout(done, ms));
        return await driver.terminate(machine);
      },
    };
  }

  /** @returns once it has ended */
  async stop(): Promise<void> {
    this.#stopped.abort();
    let isOver = false;
    void this.#run?.then(() => {
      isOver = true;
    });
    for (let seconds = 0; !isOver && seconds < 120; seconds++) await this.clock.advance(1000);
    if (!isOver) throw new Error('the launcher did not end');
  }

  /** The results that the launcher reported over all answered syncs. */
  get results(): OrderResult[] {
    return this.reports.flatMap(({ results }) => results);
  }

  launchOrder(id: string, more: Partial<LaunchOrder> = {}): LaunchOrder {
    const { engine, model, image, env, secrets, slots } = PoolSpec.parse({
      model: 'm',
      secrets: ['HF_TOKEN'],
      env: { MAX_MODEL_LEN: 4096 },
      machines: [{ provider: 'cloud', instance_type: 'h100' }],
    });
    return {
      kind: 'launch',
      launch_id: id,
      order: 1,
      provider: 'cloud',
      name: `${PREFIX}small-${id}`,
      may_exist: false,
      machine: { instance_type: 'h100', gpus: 1, disk_gb: null, price_per_hour: null },
      config_id: 'small',
      pool: { engine, model, image, env, secrets, slots, adapters: [] },
      token: 'wvl_token-of-this-worker',
      ...more,
    };
  }

  terminateOrder(id: string, order: number, external_id: string | null = null): Order {
    return {
      kind: 'terminate',
      launch_id: id,
      order,
      provider: 'cloud',
      name: `${PREFIX}small-${id}`,
      external_id,
    };
  }

  #answer(report: LauncherReport): LauncherAnswer {
    this.queueFault?.();
    this.reports.push(report);
    const { orders } = this;
    this.orders = [];
    return {
      prefix: PREFIX,
      providers: this.providers,
      orders,
      sync_after_ms: 1000,
      list_every_ms: 10_000,
    };
  }
}
