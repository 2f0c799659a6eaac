import { useEffect, useRef, useState } from 'preact/hooks';
import type { FleetHistory } from '../../protocol/fleet-view.ts';
import * as format from '../../show/format.ts';
import { now, timeZone } from '../clock.ts';
import { Chart } from '../controls/chart.tsx';
import { Chips } from '../controls/chips.tsx';
import { Mark, type Shape } from '../controls/marks.tsx';
import type { Series } from '../controls/series.ts';
import { HoldTime } from '../controls/time.tsx';
import { ownFailure, usePolled } from '../polled.ts';
import { filter, go, href, query } from '../router.ts';
import { chartsOf } from './history-charts.ts';

/** The pool or the model that the charts show; with neither, the whole fleet. */
interface CourseOf {
  config_id?: string | null;
  model?: string | null;
}

/** The spans of time, by their names in the address and the API. */
const RANGES = {
  '15m': '15 min',
  '1h': '1 hour',
  '6h': '6 hours',
  '24h': '1 day',
  '7d': '7 days',
  '30d': '30 days',
} as const;
type Range = keyof typeof RANGES;
const USUAL: Range = '1h';

const HOUR_MS = 3_600_000;
/** The longest interval between two reads, ms: a history in steps of a minute or more has nothing new any sooner. */
const MOST_REFRESH_MS = 60_000;
const MOST_MARKS = 6;

type Kind = FleetHistory['marks'][number]['kind'];
/** The meanings and looks of the marks, which have the shapes of states (`drawMarks` in plot-marks.ts). */
const KINDS: Record<Kind, { word: string; shape: Shape; tone: string }> = {
  launched: { word: 'machine launched', shape: 'hollow', tone: 'work' },
  started: { word: 'worker ready', shape: 'full', tone: 'good' },
  ended: { word: 'machine ended', shape: 'bar', tone: 'dim' },
  failed: { word: 'failed', shape: 'cross', tone: 'bad' },
};

/** Shows charts of what happened, with a common cursor; dragging over a span of time opens its requests. */
export function OverTime(of: CourseOf) {
  const root = useRef<HTMLElement>(null);
  const isSeen = useSeen(root);
  const given = query.value.get('over') ?? USUAL;
  const range: Range = given in RANGES ? (given as Range) : USUAL;
  const asked = new URLSearchParams({ range });
  for (const [name, value] of Object.entries(of)) if (value) asked.set(name, value);
  const until = query.value.get('until');
  if (until) asked.set('until', until);
  const refresh = range === '15m' || range === '1h' ? 10_000 : MOST_REFRESH_MS;
  const { data, failure } = usePolled<FleetHistory>(
    isSeen ? `api/fleet/history?${asked}` : null,
    refresh,
  ).value;
  return (
    <section class="over-time" aria-labelledby="over-time-title" ref={root}>
      <div class="tools">
        <h2 id="over-time-title">Over time{nameOf(of)}</h2>
        <Chips
          label="How far back"
          chosen={range}
          options={RANGES}
          onChoose={(over) => filter({ over: over === USUAL ? null : over })}
        />
        <HeldTime until={until} />
        {data && (
          <a
            href={href(requestsPath(of, data.at[0]!, until === null ? null : data.at.at(-1)! + data.step_ms))}
          >
            Requests of this time
          </a>
        )}
      </div>
      {data ? <Courses of={of} history={data} /> : <p class="notice">{ownFailure(failure) ?? 'Asking …'}</p>}
    </section>
  );
}

function Courses({ of, history }: { of: CourseOf; history: FleetHistory }) {
  const { at, step_ms, marks } = history;
  const select = (from: number, to: number) => go(requestsPath(of, from, to));
  const charts = chartsOf(history, now.peek());
  if (marks.length === 0 && charts.every(({ series }) => series.every(isUnknown)))
    return <p class="notice">Nothing was measured in this time.</p>;
  return (
    <>
      <div class="charts">
        {charts.map(({ hasMarks, ...chart }) => (
          <Chart
            key={chart.title}
            {...chart}
            span={[at[0]!, at.at(-1)! + step_ms]}
            isLong={step_ms >= HOUR_MS}
            cursor="over-time"
            marks={hasMarks ? marks : []}
            onSelect={select}
          />
        ))}
      </div>
      <p class="dim mark-keys">
        Drag over a chart to see the requests of that time.
        {Object.entries(KINDS)
          .filter(([kind]) => marks.some((mark) => mark.kind === kind))
          .map(([kind, { word, shape, tone }]) => (
            <span key={kind} class="mark-key">
              <span class={tone}>
                <Mark shape={shape} />
              </span>
              {word}
            </span>
          ))}
      </p>
      {marks.length > 0 && (
        <ul class="marks" aria-label="What happened to workers and machines, newest first">
          {marks
            .slice(-MOST_MARKS)
            .reverse()
            .map(({ at, kind, text }) => (
              <li key={`${at} ${text}`}>
                <span class={KINDS[kind].tone} title={KINDS[kind].word}>
                  <Mark shape={KINDS[kind].shape} label={`${KINDS[kind].word}:`} />
                </span>
                <time>{format.exactTime(at, timeZone.value)}</time> {text}
              </li>
            ))}
        </ul>
      )}
    </>
  );
}

function isUnknown({ values }: Series): boolean {
  return values.every((value) => value === null);
}

/**
 * Shows the button that fixes the moving span, so that its address shows the same to others, or the one that releases
 * it.
 */
function HeldTime({ until }: { until: string | null }) {
  if (until === null) {
    return <HoldTime onHold={() => filter({ until: new Date(now.peek()).toISOString() })} />;
  }
  return (
    <button type="button" class="chip" onClick={() => filter({ until: null })}>
      until {format.exactTime(Date.parse(until), timeZone.value)} <span aria-hidden="true">×</span>
      <span class="unseen">, until now</span>
    </button>
  );
}

function nameOf({ config_id, model }: CourseOf): string {
  if (config_id) return `, ${config_id}`;
  return model ? `, ${model}` : '';
}

/** Returns the path of a span's requests. @param to epoch ms; null: now */
function requestsPath({ config_id, model }: CourseOf, from: number, to: number | null): string {
  const asked = new URLSearchParams({ since: new Date(from).toISOString() });
  if (to !== null) asked.set('until', new Date(to).toISOString());
  if (config_id) asked.set('config_id', config_id);
  if (model) asked.set('model', model);
  return `requests?${asked}`;
}

/** Returns whether an element was ever near the window: until then it reads nothing and draws nothing. */
function useSeen(root: { current: Element | null }): boolean {
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    if (isSeen || !root.current) return;
    const seen = new IntersectionObserver(
      (entries) => entries.some(({ isIntersecting }) => isIntersecting) && setSeen(true),
      { rootMargin: '200px' },
    );
    seen.observe(root.current);
    return () => seen.disconnect();
  }, [isSeen]);
  return isSeen;
}
