import type { LedgerStep } from '../../client/index.ts';
import type { FleetView, RequestRecord, WorkerRow } from '../../protocol/index.ts';
import { age, amount, duration, inWords, money, price, tokenRate } from '../../show/format.ts';
import { isUnderWay, sortLaunches } from '../../show/launches.ts';
import { type Lane, timelineOf } from '../../show/timeline.ts';
import { TROUBLE } from '../../show/workers.ts';
import { type Colour, type Column, clean, colour, cut, type Screen, table } from '../terminal.ts';
import { traceText } from '../trace.ts';
import { LAUNCH_COLUMNS, POOL_COLUMNS, SCALED_COLUMNS, WORKER_COLUMNS } from './columns.ts';
import { KEYS, matches, type TopState } from './keys.ts';

/** A fleet that is drawn as lines of text. */
export interface ShownFleet {
  view: FleetView;
  /** The time by the server's clock, epoch ms. */
  now: number;
  /** The freshness of the view, in words: "live", "reconnecting in 3 s". */
  connection: string;
}

/** The contents of a terminal that accepts keys. */
interface Shown extends ShownFleet {
  state: TopState;
  /**
   * The requests that pass the filter, in order: an error's text if they could not be read; null while they are being
   * read.
   */
  requests: RequestRecord[] | string | null;
  course: { request: RequestRecord; steps: LedgerStep[] | string | null } | null;
}

/** The sort orders of the workers, by name. */
export const WORKER_ORDERS: [name: string, value: (worker: WorkerRow) => number | string][] = [
  ['trouble', ({ state, worker_id }) => `${TROUBLE[state]} ${worker_id}`],
  ['name', ({ worker_id }) => worker_id],
  ['pool', ({ config_id }) => config_id ?? ''],
  ['busy slots', ({ running }) => -(running ?? -1)],
  ['tokens/s', ({ tokens_per_second }) => -(tokens_per_second ?? -1)],
  ['KV cache', ({ kv_cache_usage }) => -(kv_cache_usage ?? -1)],
];

/** Returns as many lines as the screen has, none wider than it; the last one shows the keys. */
export function topLines(shown: Shown, screen: Screen): string[] {
  const body = bodyLines(shown, { ...screen, rows: screen.rows - 1 }).slice(0, screen.rows - 1);
  const room = Array.from({ length: Math.max(0, screen.rows - 1 - body.length) }, () => '');
  return [...body, ...room, colour(screen, 'quiet', footerOf(shown))].map((line) =>
    cut(line, screen.columns),
  );
}

function bodyLines(shown: Shown, screen: Screen): string[] {
  const { state, requests, course, now } = shown;
  switch (state.view) {
    case 'fleet':
      return fleetLines({ ...shown, view: chosen(shown) }, screen);
    case 'help':
      return ['Keys', '', ...KEYS.map(([keys, meaning]) => `  ${keys.padEnd(10)}  ${meaning}`)];
    case 'requests':
      if (requests === null) return ['Asking for requests …'];
      return typeof requests === 'string' ? [requests] : requestLines(requests, state.selected, now, screen);
    case 'request':
      return course === null ? [] : courseLines(course.request, course.steps, now, screen);
  }
}

/** Returns the part of the fleet that passes the filter, its workers in the chosen order. */
function chosen({ view, state: { filter, sort } }: Shown): FleetView {
  const [, value] = WORKER_ORDERS[sort] ?? WORKER_ORDERS[0]!;
  const compare = (a: number | string, b: number | string) => (a < b ? -1 : a > b ? 1 : 0);
  return {
    ...view,
    pools: view.pools.filter(({ config_id, models }) => matches(filter, [config_id, ...models])),
    workers: view.workers
      .filter(({ worker_id, config_id, models }) => matches(filter, [worker_id, config_id, ...models]))
      .sort((a, b) => compare(value(a), value(b))),
    launches: view.launches.filter(({ id, config_id }) => matches(filter, [id, config_id])),
  };
}

function footerOf({ state: { view, filter, isTyping, sort }, connection }: Shown): string {
  if (isTyping) return `/${filter}▏  Enter keeps it, Esc removes it`;
  const orders = view === 'fleet' ? WORKER_ORDERS : view === 'requests' ? REQUEST_ORDERS : [];
  const order = orders[sort];
  return [
    'q quit',
    '? keys',
    view === 'fleet' ? 'r requests' : 'f fleet',
    ...(view === 'requests' ? ['Enter its course'] : []),
    ...(view === 'request' ? ['Esc back'] : []),
    ...(order ? [`s order: ${order[0]}`, filter === '' ? '/ filter' : `/ filter: ${clean(filter)}`] : []),
    ...(view === 'fleet' ? [] : [connection]),
  ].join(' · ');
}

/** Returns at most as many lines as the screen has, none wider than it. */
export function fleetLines({ view, now, connection }: ShownFleet, screen: Screen): string[] {
  const { summary, attention, pools, workers, launches, scaling } = view;
  const head = [
    `${colour(screen, summary.verdict === 'serving' ? 'good' : 'bad', VERDICTS[summary.verdict])}  ${clean(summary.text)}`,
    [
      `${view.queue_id}: ${summary.ready_workers}/${summary.workers} workers ready`,
      `${summary.busy_slots}/${summary.slots} slots busy`,
      `${summary.waiting} waiting${summary.oldest_wait_ms === null ? '' : ` (oldest ${age(summary.oldest_wait_ms)})`}`,
      tokenRate(summary.tokens_per_second),
      ...(scaling ? [`${price(scaling.price_per_hour)}, ${money(scaling.spent_today)} today`] : []),
      connection,
    ].join(' · '),
    ...attention.slice(0, MOST_ATTENTION).map(({ severity, text, advice }) => {
      const { mark, tone } = SEVERITIES[severity];
      return `${colour(screen, tone, mark)} ${clean(`${text} → ${advice}`)}`;
    }),
    ...more(attention.length - MOST_ATTENTION, 'more that need attention'),
    '',
  ];
  const underWay = sortLaunches(launches.filter(isUnderWay));
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

const SEVERITIES = {
  error: { mark: '✖', tone: 'bad' },
  warning: { mark: '▲', tone: 'busy' },
  info: { mark: '○', tone: 'quiet' },
} as const;

const VERDICTS = {
  serving: 'Serving',
  degraded: 'Degraded',
  not_serving: 'Not serving',
  empty: 'No worker yet',
};

function more(left: number, what: string): string[] {
  return left > 0 ? [`… ${left} ${what}`] : [];
}

const OUTCOMES: Record<string, Colour> = { succeeded: 'good', failed: 'bad', expired: 'bad' };

const COLUMNS: Column<RequestRecord>[] = [
  { title: 'ENDED', text: ({ ended_at }, now) => age(now - ended_at), drop: 1 },
  { title: 'REQUEST', text: ({ id }) => id, isLeft: true, drop: 0 },
  { title: 'MODEL', text: ({ model }) => model || '–', isLeft: true, drop: 2 },
  { title: 'POOL', text: ({ config_id }) => config_id || '–', isLeft: true, drop: 6 },
  { title: 'WORKER', text: ({ worker_id }) => worker_id ?? '–', isLeft: true, drop: 4 },
  {
    title: 'OUTCOME',
    text: ({ outcome }) => outcome,
    isLeft: true,
    drop: 0,
    colour: ({ outcome }) => OUTCOMES[outcome] ?? 'quiet',
  },
  { title: 'WAIT', text: ({ wait_ms }) => duration(wait_ms), drop: 3 },
  { title: 'TTFT', text: ({ first_token_ms }) => duration(first_token_ms), drop: 3 },
  { title: 'TOTAL', text: ({ total_ms }) => duration(total_ms), drop: 0 },
  { title: 'IN', text: ({ tokens_in }) => amount(tokens_in), drop: 5 },
  { title: 'OUT', text: ({ tokens_out }) => amount(tokens_out), drop: 5 },
  { title: 'ERROR', text: ({ error }) => error ?? '', isLeft: true, drop: 7 },
];

/** The sort orders of the requests, by name; the first is the order in which they come. */
export const REQUEST_ORDERS: [name: string, value: (request: RequestRecord) => number][] = [
  ['newest', ({ ended_at }) => ended_at],
  ['total time', ({ total_ms }) => total_ms],
  ['wait', ({ wait_ms }) => wait_ms],
  ['tokens out', ({ tokens_out }) => tokens_out ?? 0],
];

/** Returns a table of requests in which one row is marked and visible. */
export function requestLines(
  requests: readonly RequestRecord[],
  selected: number,
  now: number,
  screen: Screen,
): string[] {
  if (requests.length === 0) return ['No request has ended yet, or none that the filter lets through.'];
  const height = Math.max(1, screen.rows - 1);
  const first = Math.max(0, Math.min(selected - Math.floor(height / 2), requests.length - height));
  const shown = requests.slice(first, first + height);
  const [head = '', ...rows] = table(COLUMNS, shown, now, { ...screen, columns: screen.columns - 2 });
  return [`  ${head}`, ...rows.map((row, n) => `${first + n === selected ? '▶' : ' '} ${row}`)];
}

const BARS = { wait: '·', prefill: '▒', decode: '█', run: '█' } as const;
const BAR_COLUMNS = 50;

/**
 * Returns a request, its attempts to scale, and its ledger step by step. @param steps null while they are being read
 */
export function courseLines(
  request: RequestRecord,
  steps: readonly LedgerStep[] | string | null,
  now: number,
  screen: Screen,
): string[] {
  const { id, outcome, model, worker_id, wait_ms, first_token_ms, total_ms, tokens_in, tokens_out, error } =
    request;
  const head = [
    `${colour(screen, OUTCOMES[outcome] ?? 'quiet', outcome)}  ${clean(id)}`,
    clean(`${model || '–'} on ${worker_id ?? 'no worker'}, ${age(now - request.ended_at)} ago`),
    `wait ${duration(wait_ms)} · first token ${duration(first_token_ms)} · total ${duration(total_ms)} · ${amount(tokens_in)} tokens in · ${amount(tokens_out)} out`,
    ...(error === null ? [] : [colour(screen, 'bad', clean(error))]),
    '',
  ];
  if (steps === null) return [...head, 'Asking for its steps …'];
  if (typeof steps === 'string') return [...head, clean(steps)];
  const timeline = timelineOf(steps, request.ended_at);
  const lanes = timeline?.lanes.map((lane) => laneLine(lane, timeline.from, timeline.to)) ?? [];
  const ledger = traceText(id, steps).trimEnd().split('\n').slice(1);
  return [...head, ...lanes, '· waits  ▒ reads the prompt  █ generates', '', ...ledger.map(clean)].map(
    (line) => cut(line, screen.columns),
  );
}

function laneLine({ attempt, worker_id, spans, end }: Lane, from: number, to: number): string {
  const at = (ms: number) => Math.round(((ms - from) / (to - from)) * BAR_COLUMNS);
  let bar = ' '.repeat(at(spans[0]?.from ?? from));
  // A span too short to be seen still gets one column.
  for (const { to: ends, activity } of spans.filter((span) => span.to > span.from))
    bar = bar.padEnd(Math.max(bar.length + 1, at(ends)), BARS[activity]);
  const who = attempt === 0 ? 'no attempt' : `attempt ${attempt} ${worker_id ?? ''}`;
  return clean(`${bar.padEnd(BAR_COLUMNS + 3)}  ${who}${end ? `: ${inWords(end.step)}` : ''}`);
}
