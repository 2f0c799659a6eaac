import { isFinal, type LaunchRow } from '../../protocol/scaling.ts';
import * as format from '../../show/format.ts';
import { doingNow, LAUNCH_STEPS, stepStates } from '../../show/launches.ts';
import { now } from '../clock.ts';
import { Progress } from '../controls/figures.tsx';
import { LaunchMark } from '../controls/marks.tsx';
import type { Column } from '../controls/table.tsx';
import { Age } from '../controls/time.tsx';
import { href } from '../router.ts';

/** The column of a launch's state. */
const STATE: Column<LaunchRow> = {
  key: 'state',
  head: 'State',
  width: 108,
  narrow: 100,
  cell: (launch) => <LaunchMark launch={launch} />,
};

const LAUNCH: Column<LaunchRow> = {
  key: 'launch',
  head: 'Launch',
  width: 170,
  cell: ({ id, name, config_id, registered_at }) => (
    <>
      {registered_at === null ? (
        <span class="id" title={name}>
          {id}
        </span>
      ) : (
        <a class="id" href={href(`workers/${encodeURIComponent(name)}`)} title={name}>
          {id}
        </a>
      )}
      <small title={config_id}>{config_id}</small>
    </>
  ),
};

const MACHINE: Column<LaunchRow> = {
  key: 'machine',
  head: 'Machine',
  width: 170,
  drop: 2,
  cell: ({ instance_type, provider, external_id, is_spot, is_stand_in }) => (
    <>
      <span title={instance_type}>{instance_type}</span>
      <small title={external_id ?? undefined}>
        {provider}
        {is_spot && ' spot'}
        {is_stand_in && ' in place of spot'}
        {external_id !== null && <span class="id"> {external_id}</span>}
      </small>
    </>
  ),
};

const COST: Column<LaunchRow> = {
  key: 'cost',
  head: 'Cost',
  title: "Cost so far, by the provider's times, and the price an hour",
  width: 78,
  isNumber: true,
  cell: ({ cost, price_per_hour }) => (
    <>
      {format.money(cost)}
      <small class="number">{format.price(price_per_hour)}</small>
    </>
  ),
};

/** The column of a launch's reason. Its figures, in brackets at its end, are shown on hover only. */
const REASON: Column<LaunchRow> = {
  key: 'reason',
  head: 'Why it was launched',
  drop: 3,
  cell: ({ reason }) => (
    <span class="sentence" title={reason}>
      {reason.replace(/\s*\(.*\)$/s, '')}
    </span>
  ),
};

/** The columns of launches that may be alive. */
export const LAUNCH_COLUMNS: Column<LaunchRow>[] = [
  STATE,
  LAUNCH,
  { key: 'phase', head: 'Phase', width: 270, drop: 4, cell: (launch) => <Phase launch={launch} /> },
  MACHINE,
  COST,
  REASON,
  {
    key: 'age',
    head: 'Age',
    title: 'Since the decision',
    width: 82,
    isNumber: true,
    drop: 5,
    cell: ({ intended_at }) => <Age at={intended_at} />,
  },
];

/** The columns of launches, including ended ones. */
export const RECENT_COLUMNS: Column<LaunchRow>[] = [
  STATE,
  LAUNCH,
  { key: 'outcome', head: 'Outcome', drop: 4, cell: (launch) => <Outcome launch={launch} /> },
  MACHINE,
  {
    key: 'start',
    head: 'Start took',
    title: 'From the decision to the first job that it could take',
    width: 86,
    isNumber: true,
    drop: 3,
    cell: ({ intended_at, ready_at }) => format.duration(ready_at === null ? null : ready_at - intended_at),
  },
  COST,
  REASON,
  {
    key: 'ended',
    head: 'Ended',
    title: 'How long ago',
    width: 82,
    isNumber: true,
    drop: 5,
    cell: (launch) => (!isFinal(launch) ? 'not yet' : <Age at={launch.ended_at ?? launch.state_at} />),
  },
];

/** Shows a start such as `▰▰▰▱▱ load 62 % 1:12 of ~2:40`, amber once it takes longer than usual. */
function Phase({ launch }: { launch: LaunchRow }) {
  const { state, loading, intended_at, ready_at, ready_expected_at, detail } = launch;
  const isStarting = !isFinal(launch) && ready_at === null && state !== 'terminating';
  const taken = (ready_at ?? now.value) - intended_at;
  const isSlow = isStarting && ready_expected_at !== null && now.value > ready_expected_at;
  return (
    <>
      <Steps launch={launch} />
      <small class={`start ${isSlow || launch.cause ? 'warn' : ''}`} title={detail ?? undefined}>
        <span>
          {doingNow(launch)}
          {isStarting && loading?.progress != null && ` ${format.percent(loading.progress)}`}
        </span>
        {isStarting && loading && <Progress share={loading.progress} label={`Progress of ${launch.name}`} />}
        {isStarting && (
          <span class="number" title="Since the decision, and how long that usually takes">
            {format.age(taken)}
            {ready_expected_at !== null && ` of ~${format.age(ready_expected_at - intended_at)}`}
          </span>
        )}
      </small>
    </>
  );
}

const STEP_WORDS = { done: 'done', now: 'goes on', failed: 'failed', rest: 'not reached' };

/** Shows a segment for each step, filled once the step is done. */
function Steps({ launch }: { launch: LaunchRow }) {
  const states = stepStates(launch);
  const isWhole = states.every((state) => state === 'done');
  return (
    <ol class={`steps${isWhole ? ' whole' : ''}`} aria-label="Steps of the start">
      {LAUNCH_STEPS.map((step, index) => {
        const state = states[index]!;
        return (
          <li key={step} class={state} title={`${step}: ${STEP_WORDS[state]}`}>
            <span class="unseen">
              {step}: {STEP_WORDS[state]}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

/** Shows how a launch ended, or what it does. */
function Outcome({ launch }: { launch: LaunchRow }) {
  const { state, cause, detail, ready_at, ended_at, state_at } = launch;
  const worked =
    ready_at === null ? null : (ended_at ?? (!isFinal(launch) ? now.value : state_at)) - ready_at;
  return (
    <>
      <span class={cause === null ? undefined : 'warn'}>{doingNow(launch)}</span>
      <small title={detail ?? undefined}>
        {worked !== null && `${state === 'gone' ? 'worked' : 'ready for'} ${format.duration(worked)}`}
        {worked !== null && detail && '; '}
        {detail}
      </small>
    </>
  );
}
