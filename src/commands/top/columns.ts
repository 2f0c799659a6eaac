import {
  type LaunchRow,
  type PoolRow,
  type PoolScaling,
  type WorkerRow,
  type WorkerState,
  waitingText,
} from '../../protocol/index.ts';
import {
  age,
  amount,
  celsius,
  count,
  duration,
  exactTime,
  memory,
  money,
  percent,
  percentile,
  price,
  watts,
} from '../../show/format.ts';
import { doingNow } from '../../show/launches.ts';
import { gpuTotals } from '../../show/workers.ts';
import type { Colour, Column } from '../terminal.ts';

/** Columns of workers, pools and launches. Shape and word tell a state; colour only supports them. */

const STATES: Record<WorkerState, { shape: string; colour: Colour }> = {
  starting: { shape: '○', colour: 'quiet' },
  loading: { shape: '◔', colour: 'busy' },
  ready: { shape: '●', colour: 'good' },
  running: { shape: '◉', colour: 'good' },
  paused: { shape: '▲', colour: 'busy' },
  late: { shape: '▲', colour: 'busy' },
  draining: { shape: '◐', colour: 'quiet' },
  error: { shape: '✖', colour: 'bad' },
  lost: { shape: '◌', colour: 'bad' },
  stopped: { shape: '○', colour: 'quiet' },
};

/**
 * Returns the word for a state. A worker that runs nothing is `idle`; the first line counts working ones as ready too.
 */
function wordOf(state: WorkerState): string {
  return state === 'ready' ? 'idle' : state;
}

export const WORKER_COLUMNS: Column<WorkerRow>[] = [
  {
    title: 'STATE',
    text: ({ state }) => `${STATES[state].shape} ${wordOf(state)}`,
    isLeft: true,
    drop: 0,
    colour: ({ state }) => STATES[state].colour,
  },
  { title: 'WORKER', text: ({ worker_id }) => worker_id, isLeft: true, drop: 0 },
  { title: 'CONFIG', text: ({ config_id }) => config_id ?? '–', isLeft: true, drop: 4 },
  { title: 'PHASE', text: phaseOf, isLeft: true, drop: 3 },
  { title: 'SLOTS', text: ({ running, slots }) => `${running ?? '–'}/${slots ?? '–'}`, drop: 0 },
  { title: 'WAIT', text: ({ engine_waiting }) => count(engine_waiting), drop: 7 },
  { title: 'KV', text: ({ kv_cache_usage }) => percent(kv_cache_usage), drop: 6 },
  { title: 'TOK/S', text: ({ tokens_per_second }) => amount(tokens_per_second), drop: 2 },
  { title: 'TTFT', text: ({ first_token_ms }) => duration(first_token_ms), drop: 5 },
  { title: 'GPU', text: ({ gpus }) => gpuTotals(gpus).name ?? '–', isLeft: true, drop: 9 },
  { title: 'MEMORY', text: gpuMemory, drop: 8 },
  { title: 'UTIL', text: ({ gpus }) => percent(gpuTotals(gpus).utilization), drop: 8 },
  { title: 'TEMP', text: ({ gpus }) => celsius(gpuTotals(gpus).temperature), drop: 10 },
  { title: 'POWER', text: ({ gpus }) => watts(gpuTotals(gpus).power), drop: 10 },
  {
    title: 'BEAT',
    text: ({ heartbeat_at }, now) => age(heartbeat_at === null ? null : now - heartbeat_at),
    drop: 1,
  },
];

export const POOL_COLUMNS: Column<PoolRow>[] = [
  { title: 'CONFIG', text: ({ config_id }) => config_id, isLeft: true, drop: 0 },
  { title: 'READY', text: ({ ready_workers, workers }) => `${ready_workers}/${workers}`, drop: 0 },
  { title: 'SLOTS', text: ({ busy_slots, slots }) => `${busy_slots}/${slots}`, drop: 0 },
  { title: 'WAITING', text: ({ pending }) => count(pending.waiting + pending.stored), drop: 0 },
  { title: 'OLDEST', text: ({ oldest_wait_ms }) => age(oldest_wait_ms), drop: 1 },
  { title: 'IN/MIN', text: ({ now }) => count(now.submitted), drop: 3 },
  {
    title: 'OUT/MIN',
    text: ({ now }) => count(now.succeeded + now.failed + now.cancelled + now.expired),
    drop: 3,
  },
  { title: 'FAILED/H', text: ({ hour }) => count(hour.failed + hour.expired), drop: 4 },
  { title: 'WAIT P95', text: ({ hour: { wait_ms } }) => percentile(wait_ms?.p95, wait_ms?.n), drop: 5 },
  {
    title: 'TTFT P95',
    text: ({ hour: { first_token_ms: first } }) => percentile(first?.p95, first?.n),
    drop: 5,
  },
  {
    title: 'WHY THEY WAIT',
    text: ({ why_waiting }) =>
      why_waiting ? waitingText(why_waiting, (at) => exactTime(at)).replace(/\.$/, '') : '',
    isLeft: true,
    drop: 2,
  },
];

/** The columns of pools in a fleet that the scheduler starts and ends. */
export const SCALED_COLUMNS: Column<PoolRow>[] = POOL_COLUMNS.flatMap((column) => {
  if (column.title !== 'SLOTS') return [column];
  const of = (title: string, text: (scaling: PoolScaling) => string, drop: number): Column<PoolRow> => ({
    title,
    text: ({ scaling }) => (scaling ? text(scaling) : '–'),
    drop,
  });
  return [
    of('WANTED', ({ wanted }) => count(wanted), 0),
    of('STARTING', ({ starting }) => count(starting), 1),
    of('DRAINING', ({ draining }) => count(draining), 2),
    of('COST', ({ price_per_hour }) => price(price_per_hour), 2),
    column,
  ];
});

export const LAUNCH_COLUMNS: Column<LaunchRow>[] = [
  { title: 'LAUNCH', text: ({ id }) => id, isLeft: true, drop: 0 },
  { title: 'CONFIG', text: ({ config_id }) => config_id, isLeft: true, drop: 1 },
  { title: 'STATE', text: ({ state }) => state, isLeft: true, drop: 0 },
  {
    title: 'DOES',
    text: (launch) =>
      [doingNow(launch), launch.loading && percent(launch.loading.progress)].join(' ').trimEnd(),
    isLeft: true,
    drop: 2,
  },
  {
    title: 'FOR',
    text: ({ intended_at, ready_expected_at }, now) => {
      const usual = ready_expected_at === null ? '' : ` of ~${age(ready_expected_at - intended_at)}`;
      return age(now - intended_at) + usual;
    },
    drop: 0,
  },
  {
    title: 'MACHINE',
    text: ({ provider, instance_type, is_spot }) => `${provider} ${instance_type}${is_spot ? ' spot' : ''}`,
    isLeft: true,
    drop: 3,
  },
  { title: 'COST', text: ({ cost }) => money(cost), drop: 2 },
  { title: 'WHY', text: ({ reason }) => reason, isLeft: true, drop: 4 },
];

/** Returns a start's phase, such as "load 62 % 1 min 12 s of ~2 min 40 s". */
function phaseOf({ state, phase, progress, start, expected_start_ms }: WorkerRow, now: number): string {
  if (state !== 'starting' && state !== 'loading') return '';
  const created = start.created_ms ?? start.engine_started_ms;
  const usual = expected_start_ms === null ? '' : ` of ~${age(expected_start_ms)}`;
  return [
    phase ?? '',
    progress === null ? '' : percent(progress),
    created === undefined ? '' : `${age(now - created)}${usual}`,
  ]
    .filter((part) => part !== '')
    .join(' ');
}

function gpuMemory({ gpus }: WorkerRow): string {
  const { memoryUsed, memoryTotal } = gpuTotals(gpus);
  return memory(memoryUsed, memoryTotal);
}
