import type { FleetView } from '../../protocol/fleet-view.ts';
import { isFinal, type LaunchRow } from '../../protocol/scaling.ts';
import { now } from '../clock.ts';
import { Table } from '../controls/table.tsx';
import { plural } from '../format.ts';
import { href } from '../router.ts';
import { LAUNCH_COLUMNS } from '../scaling/launch-columns.tsx';
import { sortLaunches } from '../scaling/launch-steps.ts';
import { isScaled, SCALING_COLUMNS } from '../scaling/scaling-columns.tsx';

const ROW_HEIGHT = 48;

/** One that has become ready stays in the list for so long, ms: then its worker speaks for it. */
const READY_SHOWN_MS = 120_000;

function isOldNews({ state, ready_at }: LaunchRow): boolean {
  return state === 'ready' && ready_at !== null && now.value - ready_at > READY_SHOWN_MS;
}

/** What the scheduler wants, has and does; nothing where no fleet's file was applied. */
export function Scaling({ view }: { view: FleetView }) {
  if (!view.scaling) return null;
  const pools = view.pools.filter(isScaled);
  const alive = view.launches.filter((launch) => !isFinal(launch));
  const launches = sortLaunches(alive.filter((launch) => !isOldNews(launch)));
  const working = alive.length - launches.length;
  return (
    <>
      <section aria-labelledby="scaling-title">
        <h2 id="scaling-title">Scaling</h2>
        <Table
          label="Scaling"
          columns={SCALING_COLUMNS}
          rows={pools}
          rowHeight={ROW_HEIGHT}
          idOf={({ config_id }) => config_id}
          isAside
        />
      </section>
      <section aria-labelledby="launches-title">
        <h2 id="launches-title">
          Launches under way <span class="number dim">{launches.length}</span>
        </h2>
        {launches.length > 0 ? (
          <Table
            label="Launches"
            columns={LAUNCH_COLUMNS}
            rows={launches}
            rowHeight={ROW_HEIGHT}
            idOf={({ id }) => id}
            isAside
            classOf={({ state }) => state}
          />
        ) : (
          <p class="notice">
            {working === 0
              ? 'No machine runs: the first is launched when work comes.'
              : `Nothing starts or ends; ${plural(working, 'machine works', 'machines work')}.`}{' '}
            <a href={href('spend')}>Newest launches and what they cost</a>
          </p>
        )}
      </section>
    </>
  );
}
