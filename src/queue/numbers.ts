import type { QueueShare } from '../fleet/rpc.ts';
import { configSlots, slotsForBatches } from './dispatch/batch-work.ts';
import type { BatchSlots, ConfigNow, QueueMetrics } from './rpc.ts';
import { configNow } from './state/config-now.ts';
import { liveConfig } from './state/live-config.ts';
import { metrics, share } from './state/share.ts';
import type { Core } from './state/state.ts';

/** What a queue tells of itself in numbers. Nothing here changes it. */
export class Numbers {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** All that machines ask of it but the size of its database. */
  metrics(): Omit<QueueMetrics, 'storage_bytes' | 'relays'> {
    return metrics(this.#core);
  }

  configNow(configId: string): ConfigNow {
    return configNow(this.#core, configId);
  }

  /** Whose workers run the lines of a batch, and in how many slots. In order of the models. */
  batchSlots(models: readonly (string | null)[]): BatchSlots[] {
    return models.map((model) => {
      const choice = liveConfig(this.#core, model);
      if (choice?.kind !== 'config') return { config_id: null, slots: 0 };
      const { config_id } = choice;
      return { config_id, slots: slotsForBatches(configSlots(this.#core, config_id)) };
    });
  }

  /** All that the fleet object shows. */
  share(): QueueShare {
    return share(this.#core);
  }
}
