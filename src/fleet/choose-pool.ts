import { listNames } from '../protocol/index.ts';
import type { KnownModel, PoolChoice, PoolStart } from './rpc.ts';

/**
 * Chooses the pool that the scheduler starts for a model, or that last served it. A pool's own name stands for its
 * models; "default" and no name mean the only pool there is.
 * @param known the most recently served first
 */
export function choosePool(
  known: readonly Pick<KnownModel, 'id' | 'config_id'>[],
  starts: readonly PoolStart[],
  model: string | null,
): PoolChoice {
  const isNamed = model !== null && model !== 'default';
  const declared = starts.flatMap(({ config_id, names }) =>
    (names.length > 0 ? names : [config_id]).map((id) => ({ id, config_id })),
  );
  const all = [...declared, ...known];
  // A request without a model may go only to pools that the operator declares.
  const there = isNamed || starts.length === 0 ? all : declared;
  const pools = [...new Set(there.map(({ config_id }) => config_id))];
  // A model or a pool may be called "default" itself.
  const named = all.find(({ id, config_id }) => id === model || config_id === model)?.config_id;
  const found = named ?? (!isNamed && pools.length === 1 && pools[0]);
  if (found) {
    const start = starts.find(({ config_id }) => config_id === found);
    return { kind: 'pool', config_id: found, ...(start && { start }) };
  }
  return {
    kind: isNamed || pools.length === 0 ? 'unknown' : 'ambiguous',
    models: listNames(there.map(({ id }) => id)),
    pools: listNames(pools),
  };
}
