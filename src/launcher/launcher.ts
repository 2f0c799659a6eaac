import { sleep } from '../process/clock.ts';
import { reasonOf } from '../process/http.ts';
import { Outage } from '../process/outage.ts';
import type { LauncherAnswer, LauncherReport, OrderResult } from '../scheduler/rpc.ts';
import type { LauncherPorts, LauncherSettings } from './ports.ts';
import { backoffMs, Provider } from './provider.ts';

/**
 * The launcher waits at most this many ms for calls in progress when it ends: longer than any provider's call limit.
 */
const FINISH_MS = 40_000;
/** Prices are fetched at this interval, ms; they hardly change. */
const PRICES_EVERY_MS = 10 * 60_000;

/**
 * Carries out the scheduler's orders with its drivers. It stores nothing on disk: the scheduler repeats orders that
 * were under way when the launcher ended, with `may_exist`.
 *
 * Its reports stay in memory until a sync has delivered them. If a result is lost all the same, the provider's list
 * shows the machine.
 */
export class Launcher {
  readonly #ports: LauncherPorts;
  readonly #settings: LauncherSettings;
  readonly #providers = new Map<string, Provider>();
  readonly #outage: Outage;
  #results: OrderResult[] = [];
  #prefix = '';

  constructor(ports: LauncherPorts, settings: LauncherSettings) {
    this.#ports = ports;
    this.#settings = settings;
    this.#outage = new Outage(ports.log, {
      begins: 'the queue does not answer this launcher; machines run on',
      ends: 'the queue answers this launcher again',
    });
  }

  /** Syncs until `ended` is aborted, then waits for the calls in progress and reports their results. Never rejects. */
  async run(ended: AbortSignal): Promise<void> {
    let failures = 0;
    while (!ended.aborted) {
      const answer = await this.#sync();
      failures = answer ? 0 : failures + 1;
      const pauseMs = answer?.sync_after_ms ?? backoffMs(failures, this.#ports.random);
      await sleep(this.#ports.clock, pauseMs, ended);
    }
    await this.#finish();
  }

  async #sync(): Promise<LauncherAnswer | null> {
    const told = this.#report();
    const askedAt = this.#ports.clock.now();
    try {
      const answer = await this.#ports.sync(told);
      this.#outage.report(null);
      this.#forget(told);
      await this.#adopt(answer);
      this.#obey(answer, askedAt);
      return answer;
    } catch (error) {
      this.#outage.report(reasonOf(error));
      return null;
    }
  }

  #report(): LauncherReport {
    const { drivers, host } = this.#settings;
    const providers = [...this.#providers.values()];
    return {
      drivers,
      host,
      lists: providers.flatMap((provider) => provider.newestList() ?? []),
      results: this.#results.slice(0, 1000),
      prices: providers.flatMap((provider) => provider.newestPrices()),
    };
  }

  /** Drops the results and lists that the queue has received. */
  #forget(told: LauncherReport): void {
    const taken = new Set(told.results);
    this.#results = this.#results.filter((result) => !taken.has(result));
    for (const list of told.lists) this.#providers.get(list.provider)?.listTaken();
  }

  /** Adopts the providers of the spec in force. */
  async #adopt({ providers, prefix }: LauncherAnswer): Promise<void> {
    this.#prefix = prefix;
    const named = new Map(providers.map((provider) => [provider.name, provider]));
    for (const [name, provider] of this.#providers) {
      if (named.has(name)) continue;
      this.#providers.delete(name);
      await provider.close();
    }
    for (const { name, spec } of providers) {
      const known = this.#providers.get(name);
      if (known) await known.use(spec);
      else this.#providers.set(name, new Provider(name, spec, this.#ports, this.#settings, this.#keep));
    }
  }

  readonly #keep = (result: OrderResult) => {
    this.#results.push(result);
  };

  #obey({ orders, prefix, list_every_ms, providers }: LauncherAnswer, askedAt: number): void {
    for (const order of orders) {
      const provider = this.#providers.get(order.provider);
      if (provider) provider.take(order, askedAt);
      else
        this.#ports.log.warn(
          { order: order.launch_id, provider: order.provider },
          'an order for a provider that this launcher was not given; ignored',
        );
    }
    for (const { name, instance_types } of providers) {
      const provider = this.#providers.get(name)!;
      provider.listIfDue(prefix, list_every_ms);
      provider.askPricesIfDue(instance_types, PRICES_EVERY_MS);
    }
  }

  async #finish(): Promise<void> {
    const providers = [...this.#providers.values()];
    for (const provider of providers) provider.stopTaking();
    const over = new AbortController();
    await Promise.race([
      Promise.all(providers.map((provider) => provider.idle())),
      sleep(this.#ports.clock, FINISH_MS, over.signal),
    ]);
    over.abort();
    if (this.#settings.endsMachines) await Promise.all(providers.map((one) => one.endAll(this.#prefix)));
    // This sync reports the results, and lists without the ended machines. The orders in its answer are for the next
    // launcher.
    if (providers.length > 0) await this.#ports.sync(this.#report()).catch(() => {});
    for (const provider of providers) await provider.close();
  }
}
