import { useEffect, useRef, useState } from 'preact/hooks';
import { clockTime, many } from '../../show/format.ts';
import { timeZone } from '../clock.ts';
import { isDark as isDarkNow } from '../theme.ts';
import type { PlotOptions, Series } from './plot.ts';

interface ChartProps extends Omit<PlotOptions, 'timeZone'> {
  title: string;
  /** The number of measurements, for percentiles. */
  n?: number;
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

/** Shows lines over time, and the same values as a table for those who do not see them. */
export function Chart(props: ChartProps) {
  const { title, at, series, format, isLong, n } = props;
  const root = useRef<HTMLDivElement>(null);
  const drawn = useRef<Drawn | null>(null);
  const isDark = isDarkNow.value;
  const options: PlotOptions = { ...props, timeZone: timeZone.value };
  const newest = useRef(options);
  newest.current = options;
  const isEmpty = series.every(({ values }) => values.every((value) => value === null));
  /** The newest step with a known value. */
  const last = Math.max(0, ...series.map(({ values }) => values.findLastIndex((value) => value !== null)));
  useEffect(() => {
    if (isEmpty || !root.current) return;
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
  }, [isEmpty, isDark, timeZone.value, series.length, isLong]);
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
      props.onSelect(at[cursor]!, at[cursor]! + at[1]! - at[0]!);
    } else return;
    event.preventDefault();
  };
  return (
    <figure class="chart" aria-label={`${title}: ${spoken(series, format)}`}>
      <figcaption>
        {title}
        {n !== undefined && !isEmpty && <span class="dim">, n {many(n)}</span>}
      </figcaption>
      {isEmpty ? (
        <p class="none">Nothing was measured.</p>
      ) : (
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
      )}
      {!isEmpty && (
        // A table by itself grows to its contents, which would widen the page.
        <div class="unseen">
          <Values at={at} series={series} format={format} title={title} />
        </div>
      )}
    </figure>
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

function Values({ title, at, series, format }: ChartProps) {
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
