import { Random } from '../support/random.ts';

/** A request: when it comes, ms from the beginning, and what it asks for in tokens. */
export interface Arrival {
  at: number;
  input: number;
  output: number;
}

/** Azure's public traces: TIMESTAMP,ContextTokens,GeneratedTokens. @throws Error for a file of another form */
export function readAzure(text: string): Arrival[] {
  const [head, ...lines] = text.trim().split(/\r?\n/);
  if (head !== 'TIMESTAMP,ContextTokens,GeneratedTokens') {
    throw new Error('expected the columns TIMESTAMP,ContextTokens,GeneratedTokens in the first line');
  }
  const rows = lines.map((line, index) => {
    const [time = '', input, output] = line.split(',');
    const at = Date.parse(`${time.slice(0, 23).replace(' ', 'T')}Z`);
    if (Number.isNaN(at)) throw new Error(`line ${index + 2}: "${time}" is no time`);
    return { at, input: Number(input), output: Number(output) };
  });
  const [first] = rows;
  return rows.map((row) => ({ ...row, at: row.at - (first?.at ?? 0) })).sort((a, b) => a.at - b.at);
}

/** Arrivals in bursts (gamma, variation 2) with lengths as conversations have them; so many a second on average. */
export function generate(seed: number, hours: number, perSecond: number): Arrival[] {
  const random = new Random(seed, 'trace');
  const arrivals: Arrival[] = [];
  let at = 0;
  while (at < hours * 3_600_000) {
    at += gamma(random, 0.25) * 4 * (1000 / perSecond);
    arrivals.push({
      at,
      input: Math.ceil(logNormal(random, 1000, 1)),
      output: Math.min(4000, Math.ceil(logNormal(random, 150, 0.8))),
    });
  }
  return arrivals;
}

/** Of which share each moment keeps what comes: by ms from the beginning. */
export type Shape = (at: number) => number;

const HOUR = 3_600_000;

export const SHAPES: Record<string, { hours: number; share: Shape }> = {
  /** Twelve hours with a day and a night. */
  day: { hours: 12, share: (at) => 0.35 - 0.31 * Math.cos((2 * Math.PI * at) / (12 * HOUR)) },
  /** An hour of ten times as much. */
  step: { hours: 7, share: (at) => (at >= 3 * HOUR && at < 4 * HOUR ? 1 : 0.1) },
  flat: { hours: 12, share: () => 0.35 },
};

/** Repeats a trace for so long and thins it out. */
export function shaped(trace: Arrival[], { hours, share }: { hours: number; share: Shape }): Arrival[] {
  const random = new Random(1, 'shape');
  const length = trace.at(-1)?.at ?? HOUR;
  const arrivals: Arrival[] = [];
  for (let from = 0; from < hours * HOUR; from += length) {
    for (const arrival of trace) {
      const at = from + arrival.at;
      if (at < hours * HOUR && random.chance(share(at))) arrivals.push({ ...arrival, at });
    }
  }
  return arrivals;
}

export function logNormal(random: Random, median: number, sigma: number): number {
  return median * Math.exp(sigma * normal(random));
}

function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
}

/** Marsaglia and Tsang's method; mean is the shape. */
function gamma(random: Random, shape: number): number {
  if (shape < 1) return gamma(random, shape + 1) * (1 - random.next()) ** (1 / shape);
  const d = shape - 1 / 3;
  const c = 1 / Math.sqrt(9 * d);
  for (;;) {
    const x = normal(random);
    const v = (1 + c * x) ** 3;
    if (v > 0 && Math.log(1 - random.next()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
  }
}
