import type { LedgerStep } from '../../client/index.ts';
import type { RequestRecord } from '../../protocol/index.ts';
import { age, amount, duration } from '../../show/format.ts';
import { type Lane, timelineOf } from '../../show/timeline.ts';
import { traceText } from '../trace.ts';
import { type Colour, type Column, clean, colour, cut, type Screen, table } from './terminal.ts';

/** Requests that have ended, and the course of one, as lines of text. */

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

/** Returns a table of requests in which one row is marked and in view. */
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

/** Returns a request, its attempts to scale, and its ledger step by step. @param steps null while they are read */
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
  return clean(`${bar.padEnd(BAR_COLUMNS + 3)}  ${who}${end ? `: ${end.step.replaceAll('_', ' ')}` : ''}`);
}
