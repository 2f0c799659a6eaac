import { useRef } from 'preact/hooks';
import type { FleetView } from '../../protocol/fleet-view.ts';
import type { LaunchRow } from '../../protocol/scaling.ts';
import { isUnderWay, keepLaunches } from '../../show/launches.ts';
import { Table } from '../controls/table.tsx';
import { isLow } from '../controls/window.ts';
import { href } from '../router.ts';
import { LAUNCH_COLUMNS } from '../scaling/launch-columns.tsx';
import { isScaled, SCALING_COLUMNS } from '../scaling/scaling-columns.tsx';

const ROW_HEIGHT = 48;
const HEAD_HEIGHT = 30;

/** The number of launches for which room is kept: one more does not push the workers below. */
const LAUNCHES = isLow ? 1 : 3;

/** Shows what the scheduler wants, has and does; nothing where no fleet's file was applied. */
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
  const shown = useRef<LaunchRow[]>([]);
  shown.current = keepLaunches(shown.current, launches, LAUNCHES);
  return (
    <section class="launches" aria-labelledby="launches-title">
      <h2 id="launches-title">
        Launches <span class="number">{launches.filter(isUnderWay).length} under way</span>{' '}
        <a href={href('spend')}>All, and what they cost</a>
      </h2>
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
          <p class="notice">Nothing has been launched yet: the first machine is once work comes.</p>
        )}
      </div>
    </section>
  );
}
