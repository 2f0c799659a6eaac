import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { machineFacts, type Noise } from './machine.ts';
import { median } from './statistics.ts';

/** One figure of the table in docs/performance.md, with its value in every round. */
export interface Figure {
  /** The group of goals: P1, P2, … */
  group: string;
  name: string;
  unit: string;
  /** Largest value that meets the goal (`atLeast`: smallest); null: reported only. */
  goal: number | null;
  atLeast?: boolean;
  rounds: number[];
  /** The load of the machine while the figure was measured. */
  noise?: Noise;
}

/** A run as it is kept. */
export interface Results {
  at: string;
  machine: Noise & { processors: number; model: string; node: string };
  figures: (Figure & { median: number })[];
}

const RESULTS = fileURLToPath(new URL('./results/', import.meta.url));

export function resultsFile(name: string): string {
  return `${RESULTS}${name}.json`;
}

export function printFigure({ group, name, unit, goal, atLeast, rounds }: Figure): void {
  const mid = median(rounds);
  const range = `${format(Math.min(...rounds))} to ${format(Math.max(...rounds))}`;
  const sign = atLeast ? '≥' : '≤';
  const met = goal === null ? '' : (atLeast ? mid >= goal : mid <= goal) ? 'met' : 'MISSED';
  const wanted = goal === null ? '' : `goal ${sign} ${goal}  ${met}`;
  console.log(
    `${group.padEnd(4)} ${name.padEnd(62)} ${format(mid).padStart(8)} ${unit.padEnd(5)} (${range})  ${wanted}`,
  );
}

export function noiseText({ busy_processors, waiting }: Noise): string {
  return `${busy_processors} processors busy, ${waiting} processes waiting for one`;
}

/** Keeps the figures of one run as JSON: bench/results/<name>.json. */
export function saveResults(name: string, figures: readonly Figure[], noise: Noise): string {
  mkdirSync(RESULTS, { recursive: true });
  const file = resultsFile(name);
  const machine = { ...machineFacts(), ...noise };
  const told: Results['figures'] = figures.map((figure) => ({
    ...figure,
    median: round(median(figure.rounds)),
    rounds: figure.rounds.map(round),
  }));
  const results: Results = { at: new Date().toISOString(), machine, figures: told };
  writeFileSync(file, `${JSON.stringify(results, null, 1)}\n`);
  return file;
}

export function format(value: number): string {
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2);
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}
