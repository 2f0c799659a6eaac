import type { QueueShare } from '../fleet/rpc.ts';
import type { ConfigNow, QueueMetrics } from './rpc.ts';
import { configNow } from './state/config-now.ts';
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

  /** All that the fleet object shows. */
  share(): QueueShare {
    return share(this.#core);
  }
}
