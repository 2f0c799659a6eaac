import uPlot from 'uplot';

/** The name and values of one line. */
export interface Series {
  name: string;
  values: readonly (number | null)[];
}

/** An event at a moment, epoch ms. */
export interface TimeMark {
  at: number;
  kind: 'launched' | 'started' | 'ended' | 'failed';
  text: string;
}

export interface PlotOptions {
  /** The start of each step, epoch ms. */
  at: readonly number[];
  series: readonly Series[];
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
  /** Called when the user has dragged over a span of time, epoch ms. */
  onSelect?: ((from: number, to: number) => void) | undefined;
  timeZone: string | undefined;
}

/** The chart with the third parameter of `setCursor`, which uPlot's types lack: whether synced charts follow. */
interface SyncedCursor {
  setCursor(at: { left: number; top: number }, firesHook: boolean, tellsOthers: boolean): void;
}

const HEIGHT = 150;
/** The lines' colours, and the dashes that tell the lines apart without colour. */
const LINES = [
  { color: '--accent', dash: [] },
  { color: '--drain', dash: [6, 4] },
  { color: '--warn', dash: [2, 3] },
  { color: '--dim', dash: [8, 3, 2, 3] },
  { color: '--bad', dash: [1, 2] },
];

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
  showNewest(chart);
  const sizes = new ResizeObserver(() => chart.setSize({ width: root.clientWidth, height: HEIGHT }));
  sizes.observe(root);
  return {
    update: (next: PlotOptions) => {
      newest = next;
      chart.setData(dataOf(next));
      if (chart.cursor.idx == null) showNewest(chart);
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

function showNewest(chart: uPlot): void {
  const known = chart.data.slice(1).map((values) => [...values].findLastIndex((value) => value != null));
  chart.setLegend({ idx: Math.max(0, ...known) }, false);
}

function dataOf({ at, series }: PlotOptions): uPlot.AlignedData {
  return [at.map((ms) => ms / 1000), ...series.map(({ values }) => [...values])];
}

function uPlotOptions(
  root: HTMLElement,
  { series, format, most, isWhole, isLong, cursor, onSelect, timeZone }: PlotOptions,
  newest: () => PlotOptions,
): uPlot.Options {
  const style = getComputedStyle(root);
  const color = (name: string) => resolved(root, style.getPropertyValue(name));
  const colors = {
    failed: color('--bad'),
    launched: color('--drain'),
    started: color('--good'),
    ended: color('--dim'),
  };
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
      { ...axis, size: 24, space: 70, values: isLong ? '{MMM} {D}' : '{HH}:{mm}' },
      {
        ...axis,
        size: 60,
        space: 36,
        values: (_, values) => values.map(format),
        ...(isWhole && { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }),
      },
    ],
    // While no pointer is over the chart, the legend shows the newest values.
    hooks: {
      ready: [
        (chart) =>
          showLines(
            chart,
            LINES.map(({ color: name, dash }) => ({ stroke: color(name), dash })),
          ),
        (chart) =>
          chart.over.addEventListener('mousedown', () => {
            dragged = chart;
          }),
      ],
      setCursor: [(chart) => chart.cursor.idx == null && showNewest(chart)],
      draw: [(chart) => drawMarks(chart, newest().marks ?? [], colors)],
      setSelect: [(chart) => select(chart, newest())],
    },
    cursor: {
      drag: { x: onSelect !== undefined, y: false, setScale: false },
      points: { size: 6 },
      ...(cursor !== undefined && { sync: { key: cursor } }),
    },
    series: [
      { label: 'Time', value: isLong ? '{MMM} {D} {HH}:{mm}' : '{HH}:{mm}:{ss}' },
      ...series.map(({ name }, i) => {
        const { color: line, dash } = LINES[i % LINES.length]!;
        return {
          label: name,
          stroke: color(line),
          width: 1.5,
          dash,
          spanGaps: false,
          // A value between two gaps has no line, and is drawn as a point.
          points: { show: true, size: 3, filter: isolated },
          value: (_: uPlot, value: number | null) => format(value),
        };
      }),
    ],
  };
}

const SVG = 'http://www.w3.org/2000/svg';
const KEY = { width: 22, height: 8 };

/** Shows each line in the legend as it is drawn, dashes included. */
function showLines(chart: uPlot, lines: { stroke: string; dash: number[] }[]): void {
  const markers = chart.root.querySelectorAll<HTMLElement>('.u-series:not(:first-child) .u-marker');
  for (const [i, marker] of [...markers].entries()) {
    const { stroke, dash } = lines[i % lines.length]!;
    const [svg, line] = [document.createElementNS(SVG, 'svg'), document.createElementNS(SVG, 'line')];
    set(svg, { width: KEY.width, height: KEY.height });
    const [x2, y] = [KEY.width, KEY.height / 2];
    set(line, { x1: 0, x2, y1: y, y2: y, stroke, 'stroke-width': 2, 'stroke-dasharray': dash.join(' ') });
    svg.append(line);
    // The line replaces a box in the line's colour.
    Object.assign(marker.style, { border: '0', background: 'none' });
    marker.replaceChildren(svg);
  }
}

function set(element: Element, attributes: Record<string, string | number>): void {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
}

/** The height of a tick at the top, px; a failure is drawn through the whole chart. */
const TICK = 7;
/** Marks of one kind that are closer to each other than this many px are drawn as one. */
const APART = 4;

function drawMarks(chart: uPlot, marks: readonly TimeMark[], colors: Record<TimeMark['kind'], string>): void {
  const { ctx, bbox } = chart;
  ctx.save();
  const drawn = new Map<TimeMark['kind'], number>();
  for (const { at, kind } of marks) {
    const x = Math.round(chart.valToPos(at / 1000, 'x', true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    if (x - (drawn.get(kind) ?? Number.NEGATIVE_INFINITY) < APART * devicePixelRatio) continue;
    drawn.set(kind, x);
    const isFailure = kind === 'failed';
    ctx.strokeStyle = colors[kind];
    ctx.globalAlpha = isFailure ? 0.55 : 1;
    ctx.lineWidth = (isFailure ? 1 : 2) * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, isFailure ? bbox.top + bbox.height : bbox.top + TICK * devicePixelRatio);
    ctx.stroke();
  }
  ctx.restore();
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

/** Returns the steps at which a line's value has no neighbour. */
function isolated(chart: uPlot, line: number): number[] {
  const values = chart.data[line] ?? [];
  return [...values.keys()].filter(
    (i) => values[i] != null && values[i - 1] == null && values[i + 1] == null,
  );
}

/** Returns the present value of a colour, since a canvas does not know `light-dark()`. */
function resolved(root: HTMLElement, color: string): string {
  const probe = document.createElement('span');
  probe.style.color = color;
  root.append(probe);
  const plain = getComputedStyle(probe).color;
  probe.remove();
  return plain;
}
