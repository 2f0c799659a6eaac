import { ADAPTER_BUGS } from './planted-adapter-bugs.ts';
import { ALIAS_BUGS } from './planted-alias-bugs.ts';
import { BATCH_BUGS, type Bug } from './planted-batch-bugs.ts';
import { FLEET_BUGS } from './planted-fleet-bugs.ts';
import { MOVING_BUGS } from './planted-moving-bugs.ts';
import { PREFILL_BUGS } from './planted-prefill-bugs.ts';
import { ROAD_BUGS } from './planted-road-bugs.ts';
import { RUNPOD_BUGS } from './planted-runpod-bugs.ts';
import { SHARING_BUGS } from './planted-sharing-bugs.ts';
import { SPOT_BUGS } from './planted-spot-bugs.ts';
import { SWAP_BUGS } from './planted-swap-bugs.ts';

/** Each simulation, and the faults that it must catch. */
export const WORLDS: readonly { script: string; bugs: readonly Bug[] }[] = [
  {
    script: 'scripts/simulate.ts',
    bugs: [
      ...ROAD_BUGS,
      ...ADAPTER_BUGS,
      ...SWAP_BUGS,
      ...BATCH_BUGS,
      ...MOVING_BUGS,
      ...PREFILL_BUGS,
      ...ALIAS_BUGS,
    ],
  },
  { script: 'scripts/simulate-fleet.ts', bugs: [...FLEET_BUGS, ...SPOT_BUGS] },
  { script: 'scripts/simulate-runpod.ts', bugs: RUNPOD_BUGS },
  { script: 'scripts/simulate-sharing.ts', bugs: SHARING_BUGS },
];
