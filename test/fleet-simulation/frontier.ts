import { conditionsFor } from './comparison.ts';
import { type Knobs, keda, ours, plusOne, readyOnly } from './scalers.ts';
import { type Arrival, SHAPES, shaped } from './trace.ts';
import { type Conditions, runTrace, type Scaler } from './trace-run.ts';

interface Point {
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

const OTHERS: { name: string; make: (conditions: Conditions) => Scaler; colour: string }[] = [
  { name: 'KEDA and HPA', make: keda, colour: '#b3541e' },
  { name: 'ready workers only', make: readyOnly, colour: '#7a3e9d' },
  { name: 'one more when none is starting', make: plusOne, colour: '#1a7f37' },
];

const WIDTH = 760;
const HEIGHT = 420;
const LEFT = 64;
const TOP = 66;
const PANEL = 290;
const PLOT = 250;
const INK = '#1a1a1a';
const GREY = '#666';
const BLUE = '#1f6feb';

/** GPU hours against p99 wait: a line for the scheduler's two knobs, a mark for each other rule. */
export function frontierPicture(trace: Arrival[], start = 180): string {
  const panels = ['day', 'step'].map((shape, index) => {
    const arrivals = shaped(trace, SHAPES[shape]!);
    const conditions = conditionsFor(start);
    const at = (scaler: Scaler): Point => {
      const { gpu_hours, p99 } = runTrace(arrivals, scaler, conditions);
      return { hours: gpu_hours, p99 };
    };
    const line = KNOBS.map((knobs) => at(ours(conditions, knobs)));
    const marks = OTHERS.map(({ make }) => at(make(conditions)));
    return panel(`${shape}, a start takes ${start} s`, LEFT + index * (PANEL + 70), line, marks);
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="GPU hours against the p99 wait">
<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>
<text x="${LEFT}" y="24" font-size="14" fill="${INK}">p99 wait against GPU hours: lower and further left is better</text>
${panels.join('\n')}
${legend(TOP + PLOT + 66)}
</svg>
`;
}

function panel(title: string, left: number, line: Point[], marks: Point[]): string {
  const all = [...line, ...marks];
  const hours = ticks(
    Math.min(...all.map((point) => point.hours)),
    Math.max(...all.map((point) => point.hours)),
  );
  const waits = ticks(0, Math.max(...all.map(({ p99 }) => p99)));
  const x = (value: number) => round(left + share(value, hours) * PANEL);
  const y = (value: number) => round(TOP + PLOT - share(value, waits) * PLOT);
  const bottom = TOP + PLOT;
  const middle = TOP + PLOT / 2;
  return [
    text(left, TOP - 22, title),
    ...waits.map((value) => `<path d="M${left} ${y(value)}h${PANEL}" stroke="#e2e2e2"/>`),
    ...waits.map((value) => text(left - 6, y(value) + 4, `${value}`, GREY, 'end')),
    ...hours.map((value) => text(x(value), bottom + 18, `${value}`, GREY, 'middle')),
    text(left + PANEL / 2, bottom + 36, 'GPU hours', INK, 'middle'),
    `<text transform="translate(${left - 38} ${middle}) rotate(-90)" fill="${INK}" text-anchor="middle">p99 wait in s</text>`,
    `<polyline points="${line.map((point) => `${x(point.hours)},${y(point.p99)}`).join(' ')}" fill="none" stroke="${BLUE}" stroke-width="2"/>`,
    ...line.map((point) => dot(x(point.hours), y(point.p99), BLUE)),
    ...line.map((point, index) => text(x(point.hours) + 5, y(point.p99) - 6, `${index + 1}`, BLUE)),
    ...marks.map((point, index) => dot(x(point.hours), y(point.p99), OTHERS[index]!.colour)),
  ].join('\n');
}

function legend(top: number): string {
  const knobs = KNOBS.map(
    ({ utilization, wanted_wait }, index) => `${index + 1}: ${utilization}, ${wanted_wait} s`,
  );
  let left = LEFT;
  const others = OTHERS.flatMap(({ name, colour }) => {
    const at = left;
    left += 40 + 6.5 * name.length;
    return [dot(at + 4, top + 18, colour), text(at + 14, top + 22, name, colour)];
  });
  return [text(LEFT, top, `utilization, wanted wait   ${knobs.join('   ')}`, BLUE), ...others].join('\n');
}

function dot(x: number, y: number, colour: string): string {
  return `<circle cx="${x}" cy="${y}" r="4" fill="${colour}"/>`;
}

function text(x: number, y: number, words: string, colour = INK, anchor = 'start'): string {
  return `<text x="${x}" y="${round(y)}" fill="${colour}" text-anchor="${anchor}" xml:space="preserve">${words}</text>`;
}

/** Round numbers, five or six steps, from below the least to above the most. */
function ticks(least: number, most: number): number[] {
  const rough = (most - least || 1) / 5;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * ([1, 2, 5].find((times) => times * unit >= rough) ?? 10);
  const [from, to] = [Math.floor(least / step), Math.ceil(most / step)];
  return Array.from({ length: to - from + 1 }, (_, n) => round((from + n) * step));
}

/** How far between the first and the last. */
function share(value: number, scale: number[]): number {
  const [from, to] = [scale[0]!, scale.at(-1)!];
  return (value - from) / (to - from);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
