import { age, money, price, tokenRate } from '../../dashboard/format.ts';
import { sortLaunches } from '../../dashboard/scaling/launch-steps.ts';
import { type FleetView, isFinal } from '../../protocol/index.ts';
import { LAUNCH_COLUMNS, POOL_COLUMNS, SCALED_COLUMNS, WORKER_COLUMNS } from './columns.ts';
import { clean, colour, cut, type Screen, table } from './terminal.ts';

/** A fleet as lines of text. */

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
      tokenRate(summary.tokens_per_second),
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

function more(left: number, what: string): string[] {
  return left > 0 ? [`… ${left} ${what}`] : [];
}
