import { poolSlots, slotsForBatches } from '../dispatch/batch-work.ts';
import type { BatchSlots } from '../rpc.ts';
import { livePool } from '../state/live-pool.ts';
import type { Core } from '../state/state.ts';

/**
 * Returns the pools that run batch lines for these models, and the slots that they have for it, in the models' order.
 */
export function batchSlots(core: Core, models: readonly (string | null)[]): BatchSlots[] {
  return models.map((model) => {
    const choice = livePool(core, model);
    if (choice?.kind !== 'pool') return { config_id: null, slots: 0 };
    const { config_id } = choice;
    return { config_id, slots: slotsForBatches(poolSlots(core, config_id)) };
  });
}
