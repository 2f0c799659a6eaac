import { stripVTControlCharacters } from 'node:util';
import {
  age,
  amount,
  celsius,
  count,
  duration,
  memory,
  money,
  percent,
  price,
  stopwatch,
  watts,
} from '../../dashboard/format.ts';
import { gpuTotals } from '../../dashboard/gpus.ts';
import { doingNow, sortLaunches } from '../../dashboard/scaling/launch-steps.ts';
import {
  type FleetView,
  isFinal,
  type LaunchRow,
  type PoolRow,
  type PoolScaling,
  type WorkerRow,
  type WorkerState,
} from '../../protocol/index.ts';

/** A fleet as lines of text. Shape and word tell a state; colour only supports them. */

export interface Screen {
  columns: number;
  rows: number;
  hasColours: boolean;
}

export interface Shown {
  view: FleetView;
  /** Epoch ms of the server's clock. */
  now: number;
  /** How fresh it is: "live", "reconnecting in 3 s". */
  connection: string;
}

/** As many lines as the screen has, none wider than it. */
export function fleetLines({ view, now, connection }: Shown, screen: Screen): string[] {
  const { summary, attention, pools, workers, launches, scaling } = view;
  const head = [
    `${colour(screen, summary.verdict === 'serving' ? 'good' : 'bad', VERDICTS[summary.verdict])}  ${clean(summary.text)}`,
    [
      `${view.queue_id}: ${summary.ready_workers}/${summary.workers} workers ready`,
      `${summary.busy_slots}/${summary.slots} slots busy`,
      `${summary.waiting} waiting${summary.oldest_wait_ms === null ? '' : ` (oldest ${age(summary.oldest_wait_ms)})`}`,
      `${amount(summary.tokens_per_second)} tokens/s`,
      ...(scaling ? [`${price(scaling.price_per_hour)}, ${money(scaling.spent_today)} today`] : []),
      connection,
    ].join(' · '),
    ...attention.slice(0, MOST_ATTENTION).map(({ severity, text, advice }) => {
      const mark = severity === 'error' ? '✖' : '▲';
      return `${colour(screen, severity === 'error' ? 'bad' : 'busy', mark)} ${clean(`${text} → ${advice}`)}`;
    }),
    ...more(attention.length - MOST_ATTENTION, 'more that need attention'),
    '',
  ];
  const underWay = sortLaunches(launches.filter((launch) => !isFinal(launch) && launch.state !== 'ready'));
  const poolLines = [
    ...table(scaling ? SCALED_COLUMNS : POOL_COLUMNS, pools, now, screen),
    '',
    ...(underWay.length > 0 ? [...table(LAUNCH_COLUMNS, underWay.slice(0, MOST_LAUNCHES), now, screen)] : []),
    ...more(underWay.length - MOST_LAUNCHES, 'more launches'),
    ...(underWay.length > 0 ? [''] : []),
  ];
  const left = screen.rows - head.length - poolLines.length - 2;
  const shown = workers.length > left ? workers.slice(0, Math.max(0, left - 1)) : workers;
  const lines = [
    ...head,
    ...(pools.length > 0 ? poolLines : []),
    ...(workers.length > 0 ? table(WORKER_COLUMNS, shown, now, screen) : []),
    ...more(workers.length - shown.length, 'more workers'),
  ];
  return lines.slice(0, screen.rows).map((line) => cut(line, screen.columns));
}

const MOST_ATTENTION = 5;
const MOST_LAUNCHES = 8;

const VERDICTS = {
  serving: 'Serving',
  degraded: 'Degraded',
  not_serving: 'Not serving',
  empty: 'No worker yet',
};

interface Column<Row> {
  title: string;
  text(row: Row, now: number): string;
  /** Text rather than numbers. */
  isLeft?: boolean;
  /** Of those that do not fit, the highest go first; 0: never. */
  drop: number;
  colour?(row: Row): Colour;
}

const WORKER_COLUMNS: Column<WorkerRow>[] = [
  {
    title: 'STATE',
    text: ({ state }) => `${STATES[state].shape} ${state}`,
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

const POOL_COLUMNS: Column<PoolRow>[] = [
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
  { title: 'WAIT P95', text: ({ hour }) => duration(hour.wait_ms?.p95), drop: 5 },
  { title: 'TTFT P95', text: ({ hour }) => duration(hour.first_token_ms?.p95), drop: 5 },
  { title: 'WHY THEY WAIT', text: ({ why_waiting }) => why_waiting ?? '', isLeft: true, drop: 2 },
];

/** The same of a fleet that the scheduler starts and ends. */
const SCALED_COLUMNS: Column<PoolRow>[] = POOL_COLUMNS.flatMap((column) => {
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

const LAUNCH_COLUMNS: Column<LaunchRow>[] = [
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
      const usual = ready_expected_at === null ? '' : ` of ~${stopwatch(ready_expected_at - intended_at)}`;
      return stopwatch(now - intended_at) + usual;
    },
    drop: 0,
  },
  {
    title: 'MACHINE',
    text: ({ provider, instance_type }) => `${provider} ${instance_type}`,
    isLeft: true,
    drop: 3,
  },
  { title: 'COST', text: ({ cost }) => money(cost), drop: 2 },
  { title: 'WHY', text: ({ reason }) => reason, isLeft: true, drop: 4 },
];

function table<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  now: number,
  screen: Screen,
): string[] {
  const filled = columns.map((column) => {
    const cells = rows.map((row) => clean(column.text(row, now)));
    return { column, cells, width: Math.max(column.title.length, ...cells.map(({ length }) => length)) };
  });
  const shown = fitting(filled, screen.columns);
  const line = (cell: (one: (typeof filled)[number]) => string) => shown.map(cell).join('  ').trimEnd();
  const padded = ({ column, width }: (typeof filled)[number], text: string) =>
    column.isLeft ? text.padEnd(width) : text.padStart(width);
  return [
    colour(
      screen,
      'quiet',
      line((one) => padded(one, one.column.title)),
    ),
    ...rows.map((row, index) =>
      line((one) => {
        const text = padded(one, one.cells[index] ?? '');
        return one.column.colour ? colour(screen, one.column.colour(row), text) : text;
      }),
    ),
  ];
}

/** Columns are dropped until the rest fits; the last one may be cut. */
function fitting<Filled extends { column: { drop: number }; width: number }>(
  all: Filled[],
  columns: number,
): Filled[] {
  let shown = all;
  while (shown.reduce((sum, { width }) => sum + Math.min(width, 60) + 2, -2) > columns) {
    const next = Math.max(...shown.map(({ column }) => column.drop));
    if (next === 0) return shown;
    const at = shown.findLastIndex(({ column }) => column.drop === next);
    shown = shown.filter((_, index) => index !== at);
  }
  return shown;
}

/** "load 62 % 1:12 of ~2:40". */
function phaseOf({ state, phase, progress, start, expected_start_ms }: WorkerRow, now: number): string {
  if (state !== 'starting' && state !== 'loading') return '';
  const created = start.created_ms ?? start.engine_started_ms;
  const usual = expected_start_ms === null ? '' : ` of ~${stopwatch(expected_start_ms)}`;
  return [
    phase ?? '',
    progress === null ? '' : percent(progress),
    created === undefined ? '' : `${stopwatch(now - created)}${usual}`,
  ]
    .filter((part) => part !== '')
    .join(' ');
}

function gpuMemory({ gpus }: WorkerRow): string {
  const { memoryUsed, memoryTotal } = gpuTotals(gpus);
  return memory(memoryUsed, memoryTotal);
}

function more(left: number, what: string): string[] {
  return left > 0 ? [`… ${left} ${what}`] : [];
}

type Colour = 'good' | 'busy' | 'bad' | 'quiet';

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

const ESCAPE = '\x1b';
const RESET = `${ESCAPE}[0m`;

/** SGR codes: of the terminal's own sixteen colours, so that its theme decides. */
const CODES: Record<Colour, number> = { good: 32, busy: 33, bad: 31, quiet: 2 };

function colour({ hasColours }: Screen, name: Colour, text: string): string {
  return hasColours ? `${ESCAPE}[${CODES[name]}m${text}${RESET}` : text;
}

/** Names and errors come from elsewhere: nothing of them may steer the terminal. */
function clean(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, ' ');
}

const SEQUENCE_OR_CHARACTER = new RegExp(`${ESCAPE}\\[\\d+m|.`, 'gsu');

/** To so many characters on the screen; sequences of colour take none. */
function cut(line: string, columns: number): string {
  if (stripVTControlCharacters(line).length <= columns) return line;
  let width = 0;
  let result = '';
  for (const [part] of line.matchAll(SEQUENCE_OR_CHARACTER)) {
    if (!part.startsWith(ESCAPE)) width += 1;
    if (width === columns) return `${result}…${line.includes(ESCAPE) ? RESET : ''}`;
    result += part;
  }
  return result;
}
