import { conditionsFor } from './comparison.ts';
import { type Knobs, keda, ours, plusOne, readyOnly } from './scalers.ts';
import { type Arrival, SHAPES, shaped } from './trace.ts';
import { type Conditions, runTrace, type Scaler } from './trace-run.ts';

interface Point {
  label: string;
  hours: number;
  p99: number;
}

const KNOBS: Knobs[] = [
  { utilization: 0.95, wanted_wait: 120 },
  { utilization: 0.9, wanted_wait: 60 },
  { utilization: 0.85, wanted_wait: 30 },
  { utilization: 0.7, wanted_wait: 15 },
  { utilization: 0.6, wanted_wait: 10 },
  { utilization: 0.5, wanted_wait: 5 },
];

const OTHERS: Record<string, (conditions: Conditions) => Scaler> = {
  'KEDA and HPA': keda,
  'ready only': readyOnly,
  'one more': plusOne,
};

const WIDTH = 760;
const HEIGHT = 380;
const LEFT = 64;
const TOP = 56;
const PANEL = 290;
const PLOT = 250;

/** GPU hours against p99 wait: a line for the scheduler's two knobs, a mark for each other rule. */
export function frontierPicture(trace: Arrival[], start = 180): string {
  const panels = ['day', 'step'].map((shape, index) => {
    const arrivals = shaped(trace, SHAPES[shape]!);
    const conditions = conditionsFor(start);
    const at = (label: string, scaler: Scaler): Point => {
      const { gpu_hours, p99 } = runTrace(arrivals, scaler, conditions);
      return { label, hours: gpu_hours, p99 };
    };
    const line = KNOBS.map((knobs) =>
      at(`${knobs.utilization} · ${knobs.wanted_wait} s`, ours(conditions, knobs)),
    );
    const marks = Object.entries(OTHERS).map(([label, make]) => at(label, make(conditions)));
    return panel(`${shape}, a start takes ${start} s`, LEFT + index * (PANEL + 70), line, marks);
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="GPU hours against the p99 wait">
<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>
<text x="${LEFT}" y="24" font-size="14" fill="#1a1a1a">p99 wait (s) against GPU hours; the line: utilization · wanted wait</text>
${panels.join('\n')}
</svg>
`;
}

function panel(title: string, left: number, line: Point[], marks: Point[]): string {
  const all = [...line, ...marks];
  const [fromX, toX] = range(all.map(({ hours }) => hours));
  const [, toY] = range([0, ...all.map(({ p99 }) => p99)]);
  const x = (hours: number) => round(left + ((hours - fromX) / (toX - fromX)) * PANEL);
  const y = (p99: number) => round(TOP + PLOT - (p99 / toY) * PLOT);
  const ticks = (from: number, to: number) => [0, 1, 2, 3, 4].map((n) => from + ((to - from) * n) / 4);
  const words = (point: Point, colour: string, dy: number) =>
    `<text x="${x(point.hours) + 6}" y="${y(point.p99) + dy}" fill="${colour}" font-size="10">${point.label}</text>`;
  return [
    `<text x="${left}" y="${TOP - 10}" fill="#1a1a1a">${title}</text>`,
    ...ticks(0, toY).map(
      (value) =>
        `<path d="M${left} ${y(value)}h${PANEL}" stroke="#e2e2e2"/><text x="${left - 6}" y="${y(value) + 4}" text-anchor="end" fill="#666">${label(value)}</text>`,
    ),
    ...ticks(fromX, toX).map(
      (value) =>
        `<text x="${x(value)}" y="${TOP + PLOT + 18}" text-anchor="middle" fill="#666">${label(value)} h</text>`,
    ),
    `<polyline points="${line.map(({ hours, p99 }) => `${x(hours)},${y(p99)}`).join(' ')}" fill="none" stroke="#1f6feb" stroke-width="2"/>`,
    ...line.map((point) => `<circle cx="${x(point.hours)}" cy="${y(point.p99)}" r="4" fill="#1f6feb"/>`),
    ...line.map((point) => words(point, '#1f6feb', -6)),
    ...marks.map((point) => `<circle cx="${x(point.hours)}" cy="${y(point.p99)}" r="4" fill="#b3541e"/>`),
    ...marks.map((point) => words(point, '#b3541e', 14)),
  ].join('\n');
}

/** A little more than what is shown. */
function range(values: number[]): [number, number] {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const margin = (most - least || 1) * 0.08;
  return [least - margin, most + margin];
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function label(value: number): string {
  return value.toFixed(value < 10 ? 1 : 0);
}
