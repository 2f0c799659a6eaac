import { configSlots, slotsForBatches } from '../dispatch/batch-work.ts';
import type { BatchSlots } from '../rpc.ts';
import { liveConfig } from '../state/live-config.ts';
import type { Core } from '../state/state.ts';

/** Whose workers run the lines of a batch, and in how many slots. In order of the models. */
export function batchSlots(core: Core, models: readonly (string | null)[]): BatchSlots[] {
  return models.map((model) => {
    const choice = liveConfig(core, model);
    if (choice?.kind !== 'config') return { config_id: null, slots: 0 };
    const { config_id } = choice;
    return { config_id, slots: slotsForBatches(configSlots(core, config_id)) };
  });
}
