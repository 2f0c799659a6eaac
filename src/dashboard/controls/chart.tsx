import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { clockTime, exactTime } from '../../show/format.ts';
import { timeZone } from '../clock.ts';
import { isDark as isDarkNow } from '../theme.ts';
import { Legend } from './chart-legend.tsx';
import type { PlotOptions } from './plot.ts';
import type { Series } from './series.ts';

interface ChartProps extends Omit<PlotOptions, 'timeZone' | 'onCursor'> {
  title: string;
  /** A short text behind the title, such as how many were measured. */
  note?: string | undefined;
  /** The text in place of a chart in which every value is 0; left out: such a chart is drawn. */
  none?: string | undefined;
}

/** The number of steps in the table for those who do not see the chart. */
const TABLE_STEPS = 20;

/** The number of steps by which a key moves the cursor. */
const STEPS: Record<string, number> = {
  ArrowLeft: -1,
  ArrowRight: 1,
  PageUp: -10,
  PageDown: 10,
  Home: Number.NEGATIVE_INFINITY,
  End: Number.POSITIVE_INFINITY,
};

type Drawn = Awaited<ReturnType<typeof draw>>;

async function draw(root: HTMLElement, options: PlotOptions) {
  return (await import('./plot.ts')).plot(root, options);
}

/** Shows lines over time with a legend, and the same values as a table for those who do not see them. */
export function Chart(props: ChartProps) {
  const { title, note, at, series, format } = props;
  const empty = whyEmpty(props);
  const pointed = useSignal<number | null>(null);
  /** The newest step with a known value. */
  const last = Math.max(0, ...series.map(({ values }) => values.findLastIndex((value) => value !== null)));
  return (
    <figure class="chart" aria-label={`${title}: ${spoken(series, format)}`}>
      <figcaption>
        <span>
          {title}
          {note && empty === null && <span class="dim"> {note}</span>}
        </span>
        <Moment at={at} pointed={pointed} isLong={props.isLong} />
      </figcaption>
      {empty === null ? (
        <>
          <Plot {...props} pointed={pointed} last={last} />
          <Legend series={series} format={format} pointed={pointed} />
          {/* A table by itself grows to its contents, which would widen the page. */}
          <div class="unseen">
            <Values at={at} series={series} format={format} title={title} />
          </div>
        </>
      ) : (
        <p class="none">{empty}</p>
      )}
    </figure>
  );
}

/** Returns the text in place of a chart that would show nothing; null: there is something to draw. */
function whyEmpty({ series, none }: ChartProps): string | null {
  const isEach = (is: (value: number | null) => boolean) => series.every(({ values }) => values.every(is));
  if (isEach((value) => value === null)) return 'Nothing was measured.';
  return none !== undefined && isEach((value) => !value) ? none : null;
}

interface Pointed {
  /** The step under the cursor; null: there is no cursor, and the newest values are shown. */
  pointed: Signal<number | null>;
}

/** Shows the time under the cursor. */
function Moment({ at, pointed, isLong }: Pointed & Pick<ChartProps, 'at' | 'isLong'>) {
  const ms = pointed.value === null ? undefined : at[pointed.value];
  if (ms === undefined) return null;
  return <time class="number">{isLong ? exactTime(ms, timeZone.value) : clockTime(ms, timeZone.value)}</time>;
}

/** Shows the lines, and a cursor that the pointer and the keys move. */
function Plot({ pointed, last, ...props }: ChartProps & Pointed & { last: number }) {
  const { title, at, series, isLong } = props;
  const root = useRef<HTMLDivElement>(null);
  const drawn = useRef<Drawn | null>(null);
  const isDark = isDarkNow.value;
  const newest = useRef<PlotOptions>(null as never);
  newest.current = {
    ...props,
    timeZone: timeZone.value,
    onCursor: (index) => {
      pointed.value = index;
    },
  };
  useEffect(() => {
    if (!root.current) return;
    let isOver = false;
    draw(root.current, newest.current).then(
      (chart) => {
        if (isOver) return chart.destroy();
        drawn.current = chart;
        chart.update(newest.current);
      },
      // A newer version of the page has other files; the table is shown all the same.
      () => {},
    );
    return () => {
      isOver = true;
      drawn.current?.destroy();
      drawn.current = null;
    };
  }, [isDark, timeZone.value, series.length, isLong]);
  useEffect(() => drawn.current?.update(newest.current), [at]);
  const [cursor, setCursor] = useState<number | null>(null);
  const moveTo = (index: number | null) => {
    setCursor(index);
    drawn.current?.moveTo(index);
  };
  const onKey = (event: KeyboardEvent) => {
    const step = STEPS[event.key];
    if (step !== undefined) {
      moveTo(Math.max(0, Math.min(at.length - 1, (cursor ?? last) + step)));
    } else if (event.key === 'Enter' && cursor !== null && props.onSelect && at.length > 1) {
      const [length, before] = [at[1]! - at[0]!, series[0]?.draw === 'bar' ? 0.5 : 0];
      const from = at[cursor]! - before * length;
      props.onSelect(from, from + length);
    } else return;
    event.preventDefault();
  };
  return (
    <div
      class="plot"
      role="slider"
      tabIndex={0}
      aria-label={`${title}, time`}
      aria-valuemin={0}
      aria-valuemax={at.length - 1}
      aria-valuenow={cursor ?? last}
      aria-valuetext={valueText(props, cursor ?? last)}
      ref={root}
      onKeyDown={onKey}
      onBlur={() => moveTo(null)}
    />
  );
}

/** Returns the values at a step: "14:02:11 CET: p50 850 ms, p95 1.2 s". */
function valueText({ at, series, format }: ChartProps, index: number): string {
  const values = series.map(({ name, values: all }) => `${name} ${format(all[index] ?? null)}`);
  return `${at[index] === undefined ? '' : clockTime(at[index], timeZone.value)}: ${values.join(', ')}`;
}

function spoken(series: readonly Series[], format: ChartProps['format']): string {
  return series
    .map(({ name, values }) => {
      const known = values.filter((value) => value !== null);
      if (known.length === 0) return `${name}: nothing was measured`;
      const [least, most] = [Math.min(...known), Math.max(...known)];
      return `${name}: ${format(least)} to ${format(most)}, now ${format(values.findLast((value) => value !== null) ?? null)}`;
    })
    .join('; ');
}

function Values({ title, at, series, format }: Pick<ChartProps, 'title' | 'at' | 'series' | 'format'>) {
  const from = Math.max(0, at.length - TABLE_STEPS);
  return (
    <table>
      <caption>{title}</caption>
      <thead>
        <tr>
          <th scope="col">Time</th>
          {series.map(({ name }) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {at.slice(from).map((ms, i) => (
          <tr key={ms}>
            <th scope="row">{clockTime(ms, timeZone.value)}</th>
            {series.map(({ name, values }) => (
              <td key={name}>{format(values[from + i] ?? null)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
