import type { PoolRow } from '../../protocol/fleet-view.ts';
import type { PoolScaling } from '../../protocol/scaling.ts';
import * as format from '../../show/format.ts';
import { Age } from '../controls/age.tsx';
import type { Column } from '../controls/column.ts';
import { Mark } from '../controls/mark.tsx';
import { href } from '../router.ts';
import { PoolActions } from './pool-actions.tsx';

/** A pool of the fleet's file. */
export type ScaledPool = PoolRow & { scaling: PoolScaling };

export function isScaled(pool: PoolRow): pool is ScaledPool {
  return pool.scaling !== null;
}

function counted(
  key: string,
  head: string,
  title: string,
  of: (scaling: PoolScaling) => number | null,
  drop?: 3 | 4 | 5,
): Column<ScaledPool> {
  const common = { key, head, title, width: 76, narrow: 62, isNumber: true };
  return { ...common, ...(drop && { drop }), cell: ({ scaling }) => format.count(of(scaling)) };
}

/** The columns of the scheduler's pools, left to right. */
export const SCALING_COLUMNS: Column<ScaledPool>[] = [
  {
    key: 'pool',
    head: 'Pool',
    width: 190,
    cell: ({ config_id, scaling }) => (
      <>
        <a class="id" href={href(`queue?config_id=${encodeURIComponent(config_id)}`)} title={config_id}>
          {config_id}
        </a>
        <Held scaling={scaling} />
      </>
    ),
  },
  counted('wanted', 'Wanted', 'Workers that the rule wants now', ({ wanted }) => wanted),
  counted('ready', 'Ready', 'Workers that take jobs', ({ ready }) => ready),
  counted('starting', 'Starting', 'Launched, and not ready yet', ({ starting }) => starting, 5),
  counted(
    'draining',
    'Draining',
    'They finish what they run, or are terminated',
    ({ draining }) => draining,
    4,
  ),
  counted('waiting', 'Waiting', 'Jobs that wait', ({ waiting }) => waiting, 4),
  {
    key: 'price',
    head: 'An hour',
    title: 'What its machines cost an hour now',
    width: 88,
    isNumber: true,
    drop: 5,
    cell: ({ scaling }) => format.price(scaling.price_per_hour),
  },
  {
    key: 'decision',
    head: 'Last decision',
    drop: 3,
    cell: ({ scaling: { decision } }) =>
      decision === null ? (
        format.UNKNOWN
      ) : (
        <span class="sentence" title={decision.text}>
          <span class="dim">
            <Age at={decision.at} /> ago:{' '}
          </span>
          {decision.text}
        </span>
      ),
  },
  {
    key: 'change',
    head: '',
    width: 104,
    narrow: 104,
    isNumber: true,
    cell: (pool) => <PoolActions pool={pool} />,
  },
];

/** Shows what keeps the rule from acting, else the pool's limits. */
function Held({ scaling: { control, breaker, min, max } }: { scaling: PoolScaling }) {
  if (breaker !== null) {
    return (
      <small class="bad" title={breaker.text}>
        <Mark shape="cross" /> Held back
      </small>
    );
  }
  if (control !== 'automatic') {
    return (
      <small class="warn">
        <Mark shape="triangle" /> {control === 'paused' ? 'Paused' : 'Drained'} by hand
      </small>
    );
  }
  return (
    <small class="number">
      {min} to {max} workers
    </small>
  );
}
