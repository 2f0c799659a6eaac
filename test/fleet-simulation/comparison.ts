import { type Knobs, keda, ours, plusOne, readyOnly } from './scalers.ts';
import { type Arrival, generate, SHAPES, shaped } from './trace.ts';
import { type Conditions, type Figures, runTrace, type Scaler } from './trace-run.ts';

/** What the spec of a pool has by default. */
const DEFAULT_KNOBS: Knobs = { utilization: 0.7, wanted_wait: 15 };
const STARTS = [60, 180, 420];

const RULES: Record<string, (conditions: Conditions) => Scaler> = {
  'KEDA and HPA, 75 % of the slots': keda,
  'ready workers only': readyOnly,
  'one more when none is starting': plusOne,
  'the scheduler': (conditions) => ours(conditions, DEFAULT_KNOBS),
};

/** One line of the table: a rule under every condition. */
export interface Row {
  rule: string;
  figures: Figures[];
}

export function conditionsFor(start: number): Conditions {
  return { slots: 4, tokens_per_second: 40, start, max: 64 };
}

/** An hour of made-up requests, five a second. */
export function madeUpTrace(seed = 7): Arrival[] {
  return generate(seed, 1, 5);
}

/** Every rule over a day and a step of the trace, with each start time, in the order of `columns`. */
export function compare(trace: Arrival[], starts = STARTS, shapes = ['day', 'step']): Row[] {
  const cases = shapes.flatMap((shape) => starts.map((start) => ({ shape, start })));
  const traces = new Map(shapes.map((shape) => [shape, shaped(trace, SHAPES[shape]!)]));
  return Object.entries(RULES).map(([rule, make]) => ({
    rule,
    figures: cases.map(({ shape, start }) => {
      const conditions = conditionsFor(start);
      return runTrace(traces.get(shape)!, make(conditions), conditions);
    }),
  }));
}

function columns(starts = STARTS, shapes = ['day', 'step']): string[] {
  return shapes.flatMap((shape) => starts.map((start) => `${shape}, C = ${start}`));
}

/** GPU hours / p95 / p99 wait in s / launches, as a table of Markdown. */
export function table(rows: Row[]): string {
  const cells = (list: string[]) => `| ${list.join(' | ')} |`;
  const work = rows[0]?.figures.map(({ work_hours }) => `${number(work_hours)} / / /`) ?? [];
  return [
    cells(['rule', ...columns()]),
    cells(['---', ...columns().map(() => '---')]),
    ...rows.map(({ rule, figures }) => cells([rule, ...figures.map(inWords)])),
    cells(['the work alone', ...work]),
  ].join('\n');
}

function inWords({ gpu_hours, p95, p99, launches }: Figures): string {
  return `${number(gpu_hours)} / ${number(p95)} / ${number(p99)} / ${launches}`;
}

function number(value: number): string {
  return value.toFixed(value < 9.95 && value >= 0.05 ? 1 : 0);
}
