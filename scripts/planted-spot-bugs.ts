import type { Bug } from './planted-batch-bugs.ts';

/** Faults of one line in the rule for spot machines, each of which `node scripts/simulate-fleet.ts` must catch. */
export const SPOT_BUGS: readonly Bug[] = [
  {
    name: 'fleet: spot, a preemption is a fault of the pool',
    file: 'src/scheduler/rule/breaker.ts',
    line: "if (cause === 'preempted') return 'preempted';",
    becomes: "if (cause === 'preempted') return 'pool_at_once';",
  },
  {
    name: 'fleet: spot, the base is on spot machines too',
    file: 'src/scheduler/rule/market.ts',
    line: 'const isBase = staying.filter(({ is_spot }) => !is_spot).length < base;',
    becomes: 'const isBase = staying.filter(({ is_spot }) => !is_spot).length < 0 * base;',
  },
  {
    name: 'fleet: spot, a type that is taken back again and again is launched again',
    file: 'src/scheduler/rule/spot.ts',
    line: 'return rest !== null && rest.count > 1 ? rest : null;',
    becomes: 'return rest !== null && rest.count < 1 ? rest : null;',
  },
  {
    name: 'fleet: spot, a stand-in makes room for another stand-in',
    file: 'src/scheduler/rule/swap.ts',
    line: 'if ((choice.candidate.machine.spot ?? false) === next.is_spot) return NOTHING;',
    becomes: 'if (choice.candidate.machine.gpus < 0) return NOTHING;',
  },
];
