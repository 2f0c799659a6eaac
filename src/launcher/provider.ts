import { doubling } from '../process/backoff.ts';
import { reasonOf } from '../process/http.ts';
import { MASK } from '../process/secrets.ts';
import type { Driver } from '../providers/driver.ts';
import type { ProviderSpec } from '../scheduler/provider-spec.ts';
import {
  type LauncherReport,
  type LaunchOutcome,
  type MachineList,
  MOST_PRICE_PER_HOUR,
  type Order,
  type OrderResult,
} from '../scheduler/rpc.ts';
import { Orders } from './orders.ts';
import type { LauncherPorts, LauncherSettings, WorkerRoad } from './ports.ts';

/** The most characters of one text in a report. */
const DETAIL_CHARS = 2000;
const AS_WANTED = new Set<LaunchOutcome['kind']>(['launched', 'terminating', 'terminated']);
/** After a failed fetch of prices, the next one comes after this many ms. */
const PRICES_AGAIN_MS = 30_000;

/** One provider of the spec: its driver, the orders for it, and its newest list. */
export class Provider {
  readonly #name: string;
  readonly #ports: LauncherPorts;
  readonly #settings: LauncherSettings;
  readonly #orders: Orders;
  readonly #keep: (result: OrderResult) => void;
  #spec: ProviderSpec;
  #driver: Promise<Driver> | null = null;
  #list: { beganAt: number; machines: MachineList['machines']; error: string | null } | null = null;
  #toldList: object | null = null;
  #isListing = false;
  #listDueAt = 0;
  #listFailures = 0;
  #prices: LauncherReport['prices'] = [];
  #pricesDueAt = 0;

  constructor(
    name: string,
    spec: ProviderSpec,
    ports: LauncherPorts,
    settings: LauncherSettings,
    keep: (result: OrderResult) => void,
  ) {
    this.#name = name;
    this.#spec = spec;
    this.#ports = ports;
    this.#settings = settings;
    this.#keep = keep;
    this.#orders = new Orders(ports.clock, (order) => this.#carryOut(order), keep);
  }

  /** Adopts the spec in force; calls in progress end with the driver that began them. */
  async use(spec: ProviderSpec): Promise<void> {
    if (JSON.stringify(spec) === JSON.stringify(this.#spec)) return;
    this.#spec = spec;
    this.#listDueAt = 0;
    await this.close();
  }

  async close(): Promise<void> {
    const driver = this.#driver;
    this.#driver = null;
    await (await driver?.catch(() => null))?.close?.();
  }

  take(order: Order, since: number): void {
    this.#orders.take(order, since);
  }

  stopTaking(): void {
    this.#orders.stop();
  }

  idle(): Promise<void> {
    return this.#orders.idle();
  }

  /** Returns the newest list that no sync has delivered yet. */
  newestList(): MachineList | null {
    this.#toldList = this.#list;
    if (!this.#list) return null;
    const { beganAt, machines, error } = this.#list;
    const age_ms = Math.max(0, Math.round(this.#ports.clock.now() - beganAt));
    return { provider: this.#name, age_ms, machines, error };
  }

  listTaken(): void {
    if (this.#list === this.#toldList) this.#list = null;
  }

  newestPrices(): LauncherReport['prices'] {
    return this.#prices;
  }

  /** Makes a list in the background, unless one is being made or was made less than `everyMs` ago. */
  listIfDue(prefix: string, everyMs: number): void {
    const { clock, random } = this.#ports;
    if (this.#isListing || clock.now() < this.#listDueAt) return;
    this.#isListing = true;
    void this.#makeList(prefix).then((isComplete) => {
      this.#isListing = false;
      this.#listFailures = isComplete ? 0 : this.#listFailures + 1;
      const pauseMs = isComplete ? everyMs : Math.min(everyMs, backoffMs(this.#listFailures, random));
      this.#listDueAt = clock.now() + pauseMs;
    });
  }

  /** Makes a list. @returns whether it is complete */
  async #makeList(prefix: string): Promise<boolean> {
    const beganAt = this.#ports.clock.now();
    try {
      const machines = await (await this.#useDriver()).list(prefix);
      const shown = machines.map((machine) => ({
        ...machine,
        price_per_hour: priceOf(machine.price_per_hour),
        detail: cut(machine.detail),
      }));
      this.#list = { beganAt, machines: shown, error: null };
      return true;
    } catch (error) {
      this.#list = { beganAt, machines: null, error: cut(reasonOf(error)) };
      return false;
    }
  }

  askPricesIfDue(instance_types: string[], everyMs: number): void {
    const { clock, log } = this.#ports;
    if (instance_types.length === 0 || clock.now() < this.#pricesDueAt) return;
    this.#pricesDueAt = clock.now() + everyMs;
    const ask = async () => {
      const prices = (await (await this.#useDriver()).prices?.(instance_types)) ?? [];
      this.#prices = prices.flatMap(({ instance_type, price_per_hour }) =>
        priceOf(price_per_hour) === null ? [] : [{ provider: this.#name, instance_type, price_per_hour }],
      );
    };
    ask().catch((error) => {
      // If there is a budget, the scheduler launches nothing without prices.
      this.#pricesDueAt = Math.min(this.#pricesDueAt, clock.now() + PRICES_AGAIN_MS);
      log.debug({ provider: this.#name, problem: reasonOf(error) }, 'no prices from the provider');
    });
  }

  /** Ends every machine of the installation at this provider. */
  async endAll(prefix: string): Promise<void> {
    if (prefix === '') return;
    try {
      const driver = await this.#useDriver();
      const machines = await driver.list(prefix);
      await Promise.all(
        machines.map(async (machine) => {
          const outcome = await driver.terminate(machine);
          // The scheduler did not order this end, and would otherwise count the machine as lost.
          const launch_id = machine.name.slice(machine.name.lastIndexOf('-') + 1);
          const about = { name: machine.name, provider: this.#name };
          if (outcome.kind === 'terminated') this.#keep({ launch_id, order: 1, outcome });
          else if (outcome.kind === 'terminating') this.#ports.log.info(about, 'told to end');
          else this.#ports.log.error({ ...about, ...outcome }, 'it may run on');
        }),
      );
      await this.#makeList(prefix);
    } catch (error) {
      this.#ports.log.error(
        { provider: this.#name, problem: reasonOf(error) },
        'its machines could not all be ended',
      );
    }
  }

  async #carryOut(order: Order): Promise<LaunchOutcome> {
    const { log } = this.#ports;
    const about = { launch: order.launch_id, name: order.name, provider: this.#name };
    log.info({ ...about, order: order.order }, order.kind === 'launch' ? 'launching' : 'terminating');
    const secrets = this.#secretsOf(order);
    const outcome = tellable(await this.#outcomeOf(order), secrets);
    const level = AS_WANTED.has(outcome.kind) ? 'info' : 'warn';
    log[level](
      { ...about, ...outcome },
      `${order.kind === 'launch' ? 'launch' : 'termination'}: ${outcome.kind}`,
    );
    return outcome;
  }

  async #outcomeOf(order: Order): Promise<LaunchOutcome> {
    let driver: Driver;
    try {
      driver = await this.#useDriver();
    } catch (error) {
      // The provider was not called. Once the driver can be made, lists show what already runs there.
      const kind = order.kind === 'launch' && !order.may_exist ? 'rejected' : 'unknown';
      return { kind, detail: reasonOf(error) };
    }
    try {
      if (order.kind === 'terminate') return await driver.terminate(order);
      const missing = missingSecrets(order, this.#settings.env);
      if (missing) return { kind: order.may_exist ? 'unknown' : 'rejected', detail: missing };
      const { clock } = this.#ports;
      return await driver.launch({
        ...order.machine,
        name: order.name,
        may_exist: order.may_exist,
        image: order.pool.image ?? null,
        env: workerEnvironment(order, this.#settings.road, this.#settings.env, clock.now()),
      });
    } catch (error) {
      return { kind: 'unknown', detail: reasonOf(error) };
    }
  }

  /** Returns the driver; one that could not be made is made again at the next use. */
  #useDriver(): Promise<Driver> {
    if (this.#driver) return this.#driver;
    const made = this.#ports.makeDriver(this.#spec);
    this.#driver = made;
    made.catch(() => {
      if (this.#driver === made) this.#driver = null;
    });
    return made;
  }

  #secretsOf(order: Order): string[] {
    if (order.kind === 'terminate') return [];
    const own = order.pool.secrets.map((name) => this.#settings.env[name]?.trim() ?? '');
    return [...own, order.token ?? ''].filter((secret) => secret !== '');
  }
}

/** Replaces an impossible price by null, since the queue refuses a report that has one. */
function priceOf(told: number | null): number | null {
  return told !== null && told >= 0 && told <= MOST_PRICE_PER_HOUR ? told : null;
}

/** Masks secrets in an outcome: providers quote requests, and so secrets, in their errors. */
function tellable(outcome: LaunchOutcome, secrets: string[]): LaunchOutcome {
  if (outcome.kind === 'launched') return { ...outcome, price_per_hour: priceOf(outcome.price_per_hour) };
  if (!('detail' in outcome)) return outcome;
  const detail = secrets.reduce((text, secret) => text.replaceAll(secret, MASK), outcome.detail);
  return { ...outcome, detail: cut(detail) };
}

function cut<Text extends string | null>(text: Text): Text {
  return (text?.slice(0, DETAIL_CHARS) ?? null) as Text;
}

type LaunchOrder = Extract<Order, { kind: 'launch' }>;

/** The interval of heartbeats, s; it is short because the scheduler decides by them. */
const HEARTBEAT_SECONDS = '10';
/** A worker that has not reached its queue for this many seconds ends its machine itself. */
const QUEUE_LOST_SECONDS = '900';

/** Returns the whole environment of a launched worker's container. @param nowMs epoch ms */
export function workerEnvironment(
  order: LaunchOrder,
  { url, queueId }: WorkerRoad,
  env: NodeJS.ProcessEnv,
  nowMs: number,
): Record<string, string> {
  const { pool, config_id, name, token, version } = order;
  const secrets = pool.secrets.flatMap((secret) => (env[secret] ? [[secret, env[secret]]] : []));
  return {
    CASOLA_HEARTBEAT_INTERVAL: HEARTBEAT_SECONDS,
    CASOLA_LOGS_URL: `${url}/api/logs`,
    CASOLA_METRICS_URL: `${url}/api/metrics`,
    WORKER_QUEUE_LOST_SECONDS: QUEUE_LOST_SECONDS,
    ...pool.env,
    ...Object.fromEntries(secrets),
    CASOLA_WS_URL: url.replace(/^http/, 'ws'),
    CASOLA_API_URL: url,
    CASOLA_QUEUE_ID: queueId,
    CASOLA_CONFIG_ID: config_id,
    CASOLA_INSTANCE_ID: name,
    // Base workers read their id from this variable.
    CASOLA_WORKER_ID: name,
    CASOLA_MAX_JOBS: String(pool.slots),
    CASOLA_CREATED_AT: String(Math.floor(nowMs / 1000)),
    ...(version != null && { CASOLA_VERSION: version }),
    ENGINE: pool.engine,
    VLLM_MODEL: pool.model,
    ...(pool.adapters.length > 0 && { ENGINE_ADAPTERS: JSON.stringify(pool.adapters) }),
    ...(token === null ? {} : { CASOLA_API_TOKEN: token }),
  };
}

/** Returns the error for the operator when a secret is missing, or null. */
function missingSecrets(order: LaunchOrder, env: NodeJS.ProcessEnv): string | null {
  const missing = order.pool.secrets.filter((name) => !env[name]);
  if (missing.length === 0) return null;
  return `the launcher's environment lacks ${missing.join(', ')}, which pool ${order.config_id} names under secrets: set it where the launcher runs, and start the launcher again`;
}

const FIRST_MS = 1000;
const LONGEST_MS = 30_000;

/** Returns the pause after this many failures in a row, ms: 1 s doubling to 30 s, less a random half. */
export function backoffMs(failures: number, random: () => number): number {
  return doubling(FIRST_MS, LONGEST_MS, failures) * (0.5 + 0.5 * random());
}
