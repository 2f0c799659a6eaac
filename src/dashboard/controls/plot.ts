import uPlot from 'uplot';
import { drawMarks, type TimeMark } from './plot-marks.ts';
import { resolved, seriesOptions, softly, sums } from './plot-series.ts';
import type { Series } from './series.ts';

export interface PlotOptions {
  /** The moment of each value, epoch ms: the start of its step, or the middle of a bar. */
  at: readonly number[];
  /** The span of time that the chart shows, epoch ms: charts of the same span stand under one cursor. */
  span: readonly [from: number, to: number];
  series: readonly Series[];
  /** Whether the values are parts of a whole, which are drawn on top of each other, the first at the bottom. */
  isStacked?: boolean | undefined;
  format(value: number | null): string;
  /** The highest value of the axis; left out: the values decide. */
  most?: number | undefined;
  /** Whether the values are whole numbers, so that the axis has no marks between two of them. */
  isWhole?: boolean | undefined;
  /** Whether the chart spans days rather than hours. */
  isLong?: boolean | undefined;
  /** The key of the cursor: charts with the same key move their cursors together. */
  cursor?: string | undefined;
  marks?: readonly TimeMark[] | undefined;
  /** Called when the cursor comes to another value; null: it has left. */
  onCursor?: ((index: number | null) => void) | undefined;
  /** Called when the user has dragged over a span of time, epoch ms. */
  onSelect?: ((from: number, to: number) => void) | undefined;
  timeZone: string | undefined;
}

/** The chart with the third parameter of `setCursor`, which uPlot's types lack: whether synced charts follow. */
interface SyncedCursor {
  setCursor(at: { left: number; top: number }, firesHook: boolean, tellsOthers: boolean): void;
}

const HEIGHT = 140;
/** The room above the values, px: marks stand there rather than over the lines. */
const ABOVE = 14;
/** The room to the right, px: half of a time of the axis. */
const BESIDE = 18;

/**
 * Draws a chart into an element; this module is loaded only if there is something to draw. @returns functions that
 * change the chart's data, move its cursor and remove it
 */
export function plot(root: HTMLElement, options: PlotOptions) {
  let newest = options;
  const chart = new uPlot(
    uPlotOptions(root, options, () => newest),
    dataOf(options),
    root,
  );
  const sizes = new ResizeObserver(() => chart.setSize({ width: root.clientWidth, height: HEIGHT }));
  sizes.observe(root);
  return {
    update: (next: PlotOptions) => {
      newest = next;
      chart.setData(dataOf(next));
    },
    /** Moves the cursor to a step, as a pointer would; null removes it. */
    moveTo: (index: number | null) => {
      const at = index === null ? undefined : newest.at[index];
      const left = at === undefined ? -10 : chart.valToPos(at / 1000, 'x');
      (chart as SyncedCursor).setCursor({ left, top: at === undefined ? -10 : 0 }, true, true);
    },
    destroy: () => {
      sizes.disconnect();
      chart.destroy();
    },
  };
}

function dataOf({ at, series, isStacked }: PlotOptions): uPlot.AlignedData {
  // A later line is drawn over an earlier one, so the highest sum comes first and shows only its own part.
  const lines = isStacked ? sums(series).reverse() : series.map(({ values }) => [...values]);
  return [at.map((ms) => ms / 1000), ...lines];
}

function uPlotOptions(
  root: HTMLElement,
  { series, format, most, isStacked, isWhole, isLong, cursor, onSelect, timeZone }: PlotOptions,
  newest: () => PlotOptions,
): uPlot.Options {
  const color = (name: string) => resolved(root, `var(--${name})`);
  const colors = {
    failed: color('bad'),
    launched: color('work'),
    started: color('good'),
    ended: color('dim'),
  };
  const axis = {
    stroke: color('dim'),
    font: `12px ${getComputedStyle(root).fontFamily}`,
    grid: { stroke: color('line'), width: 1 },
    ticks: { show: false },
  };
  const lines = isStacked ? series.toReversed() : series;
  return {
    width: root.clientWidth,
    height: HEIGHT,
    padding: [ABOVE, BESIDE, 0, 0],
    legend: { show: false },
    tzDate: (seconds) =>
      timeZone ? uPlot.tzDate(new Date(seconds * 1000), timeZone) : new Date(seconds * 1000),
    scales: {
      x: {
        range: () => {
          const [from, to] = newest().span;
          return [from / 1000, to / 1000];
        },
      },
      y: { range: (_, __, max) => [0, most ?? (max > 0 ? max * 1.05 : 1)] },
    },
    axes: [
      { ...axis, size: 24, space: 70, values: isLong ? '{MMM} {D}' : '{HH}:{mm}' },
      {
        ...axis,
        size: 60,
        space: 36,
        values: (_, values) => values.map(format),
        ...(isWhole && { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }),
      },
    ],
    hooks: {
      ready: [
        (chart) =>
          chart.over.addEventListener('mousedown', () => {
            dragged = chart;
          }),
      ],
      setCursor: [(chart) => newest().onCursor?.(chart.cursor.idx ?? null)],
      draw: [(chart) => drawMarks(chart, newest().marks ?? [], colors)],
      setSelect: [(chart) => select(chart, newest())],
    },
    cursor: {
      drag: { x: onSelect !== undefined, y: false, setScale: false },
      points: { show: !isStacked, size: 6 },
      ...(cursor !== undefined && { sync: { key: cursor } }),
    },
    series: [
      {},
      ...lines.map(({ draw, tone = 'accent' }) =>
        seriesOptions(
          draw ?? 'line',
          color(tone),
          softly(root, tone, isStacked === true),
          isStacked === true,
        ),
      ),
    ],
  };
}

/** Reports a span over which the user dragged. */
function select(chart: uPlot, { onSelect }: PlotOptions): void {
  const { left, width } = chart.select;
  if (width <= 0) return;
  const [from, to] = [left, left + width].map((x) => Math.round(chart.posToVal(x, 'x') * 1000));
  chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  // A chart that only follows another chart's cursor reports nothing.
  if (chart === dragged) onSelect?.(from!, to!);
}

/** The chart in which the mouse was last pressed. */
let dragged: uPlot | null = null;
