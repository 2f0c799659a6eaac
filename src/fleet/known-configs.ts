import type { ConfigRates } from '../protocol/index.ts';
import type { ConfigShare, QueueShare } from './rpc.ts';
import type { ConfigFacts } from './view/facts.ts';

const NOTHING: ConfigRates = {
  submitted: 0,
  succeeded: 0,
  failed: 0,
  cancelled: 0,
  expired: 0,
  rejected: 0,
  tokens_in: 0,
  tokens_out: 0,
  wait_ms: null,
  first_token_ms: null,
};

/** Every config that the queue has told of since this object started. */
export class KnownConfigs {
  readonly #shares = new Map<string, ConfigShare>();

  share({ full, configs }: QueueShare): void {
    if (full) this.#shares.clear();
    for (const config of configs) this.#shares.set(config.config_id, config);
  }

  /** @param named more configs, which workers are for */
  facts(named: Iterable<string>): ConfigFacts[] {
    const ids = [...new Set([...this.#shares.keys(), ...named])].sort();
    return ids.map((config_id) => ({
      config_id,
      share: this.#shares.get(config_id) ?? null,
      expected_start_ms: null,
      now: NOTHING,
      hour: NOTHING,
      day: NOTHING,
    }));
  }
}
