import { useRef } from 'preact/hooks';
import type { FleetView, PoolRow } from '../../protocol/fleet-view.ts';
import type { LaunchRow, PoolScaling } from '../../protocol/scaling.ts';
import * as format from '../../show/format.ts';
import { doingNow, isUnderWay, keepLaunches, sortLaunches } from '../../show/launches.ts';
import { ROLLOUT_WORDS } from '../../show/versions.ts';
import { LaunchMark, Mark } from '../controls/marks.tsx';
import { type Column, Table } from '../controls/table.tsx';
import { Age } from '../controls/time.tsx';
import { isLow } from '../controls/window.ts';
import { href } from '../router.ts';
import { LAUNCH_COLUMNS } from './launch-columns.tsx';
import { PoolActions } from './pool-actions.tsx';

const ROW_HEIGHT = isLow ? 40 : 48;
const HEAD_HEIGHT = 30;

/** The number of launches for which room is kept, so that one more does not push the workers below. */
const LAUNCHES = 3;

/** Shows what the scheduler wants, has and does; nothing if no fleet's file was applied. */
export function Scaling({ view }: { view: FleetView }) {
  if (!view.scaling) return null;
  return (
    <>
      <section aria-labelledby="scaling-title">
        <h2 id="scaling-title">Scaling</h2>
        <Table
          label="Scaling"
          columns={SCALING_COLUMNS}
          rows={view.pools.filter(isScaled)}
          rowHeight={ROW_HEIGHT}
          idOf={({ config_id }) => config_id}
          isAside
        />
      </section>
      <Launches launches={view.launches} />
    </>
  );
}

function Launches({ launches }: { launches: LaunchRow[] }) {
  return (
    <section class="launches" aria-labelledby="launches-title">
      <h2 id="launches-title">
        Launches <span class="number">{launches.filter(isUnderWay).length} under way</span>{' '}
        {isLow && <FirstLaunch launches={launches} />}
        <a href={href('spend')}>All, and what they cost</a>
      </h2>
      {!isLow && <LaunchTable launches={launches} />}
    </section>
  );
}

/** Shows the launch that is to be looked at first, in a line. */
function FirstLaunch({ launches }: { launches: LaunchRow[] }) {
  const [first] = sortLaunches(launches);
  if (!first) return null;
  return (
    <span class="first">
      <LaunchMark launch={first} /> <span class="id">{first.id}</span> {doingNow(first)}
    </span>
  );
}

/** Shows the launches under way, then the newest. A low window has no room for them above the workers. */
function LaunchTable({ launches }: { launches: LaunchRow[] }) {
  const shown = useRef<LaunchRow[]>([]);
  shown.current = keepLaunches(shown.current, launches, LAUNCHES);
  return (
    <div style={{ minHeight: `${HEAD_HEIGHT + LAUNCHES * ROW_HEIGHT}px` }}>
      {launches.length > 0 ? (
        <Table
          label="Launches"
          columns={LAUNCH_COLUMNS}
          rows={shown.current}
          rowHeight={ROW_HEIGHT}
          idOf={({ id }) => id}
          isAside
          classOf={({ state }) => state}
        />
      ) : (
        <p class="notice">Nothing has been launched yet. The first machine starts once work arrives.</p>
      )}
    </div>
  );
}

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
const SCALING_COLUMNS: Column<ScaledPool>[] = [
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
    'Workers that finish what they run, or are being terminated',
    ({ draining }) => draining,
    4,
  ),
  counted('waiting', 'Waiting', 'Jobs that wait', ({ waiting }) => waiting, 4),
  {
    key: 'price',
    head: 'Cost',
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

/** Shows what keeps the rule from acting, or else a rollout that is under way, or else the pool's limits. */
function Held({ scaling: { control, breaker, rollout, min, max } }: { scaling: PoolScaling }) {
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
  if (rollout !== null) {
    return (
      <small class={rollout.state === 'rolling' ? undefined : 'warn'} title={rollout.text}>
        {rollout.state !== 'rolling' && <Mark shape="triangle" />} {ROLLOUT_WORDS[rollout.state]}
      </small>
    );
  }
  return (
    <small class="number">
      {min} to {max} workers
    </small>
  );
}
