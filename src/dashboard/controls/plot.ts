import uPlot from 'uplot';

/** Of one line. */
export interface Series {
  name: string;
  values: readonly (number | null)[];
}

export interface PlotOptions {
  /** Start of each step, epoch ms. */
  at: readonly number[];
  series: readonly Series[];
  format(value: number | null): string;
  /** Highest value of the axis; left out: as high as the values are. */
  most?: number | undefined;
  /** Nothing between two whole numbers means anything. */
  isWhole?: boolean | undefined;
  timeZone: string | undefined;
}

const HEIGHT = 150;
/** Colours of the lines; the second is dashed, so that it is told apart without them. */
const LINES = [
  { color: '--accent', dash: [] },
  { color: '--drain', dash: [6, 4] },
  { color: '--warn', dash: [2, 3] },
];

/** Draws into an element; loaded only where there is something to draw. @returns changes its data, and ends it */
export function plot(root: HTMLElement, options: PlotOptions) {
  const chart = new uPlot(uPlotOptions(root, options), dataOf(options), root);
  showNewest(chart);
  const sizes = new ResizeObserver(() => chart.setSize({ width: root.clientWidth, height: HEIGHT }));
  sizes.observe(root);
  return {
    update: (next: PlotOptions) => {
      chart.setData(dataOf(next));
      if (chart.cursor.idx == null) showNewest(chart);
    },
    destroy: () => {
      sizes.disconnect();
      chart.destroy();
    },
  };
}

function showNewest(chart: uPlot): void {
  const known = chart.data.slice(1).map((values) => [...values].findLastIndex((value) => value != null));
  chart.setLegend({ idx: Math.max(0, ...known) }, false);
}

function dataOf({ at, series }: PlotOptions): uPlot.AlignedData {
  return [at.map((ms) => ms / 1000), ...series.map(({ values }) => [...values])];
}

function uPlotOptions(
  root: HTMLElement,
  { series, format, most, isWhole, timeZone }: PlotOptions,
): uPlot.Options {
  const style = getComputedStyle(root);
  const color = (name: string) => resolved(root, style.getPropertyValue(name));
  const axis = {
    stroke: color('--dim'),
    font: `12px ${style.fontFamily}`,
    grid: { stroke: color('--line'), width: 1 },
    ticks: { show: false },
  };
  return {
    width: root.clientWidth,
    height: HEIGHT,
    tzDate: (seconds) =>
      timeZone ? uPlot.tzDate(new Date(seconds * 1000), timeZone) : new Date(seconds * 1000),
    scales: { y: { range: (_, __, max) => [0, most ?? (max > 0 ? max * 1.1 : 1)] } },
    axes: [
      { ...axis, size: 24, space: 70, values: '{HH}:{mm}' },
      {
        ...axis,
        size: 60,
        space: 36,
        values: (_, values) => values.map(format),
        ...(isWhole && { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }),
      },
    ],
    // Where nobody points, the legend tells what is now.
    hooks: { setCursor: [(chart) => chart.cursor.idx == null && showNewest(chart)] },
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    series: [
      { label: 'Time', value: '{HH}:{mm}:{ss}' },
      ...series.map(({ name }, i) => {
        const { color: line, dash } = LINES[i % LINES.length]!;
        return {
          label: name,
          stroke: color(line),
          width: 1.5,
          dash,
          spanGaps: false,
          points: { show: false },
          value: (_: uPlot, value: number | null) => format(value),
        };
      }),
    ],
  };
}

/** A canvas does not know `light-dark()`: what it is at the moment. */
function resolved(root: HTMLElement, color: string): string {
  const probe = document.createElement('span');
  probe.style.color = color;
  root.append(probe);
  const plain = getComputedStyle(probe).color;
  probe.remove();
  return plain;
}
