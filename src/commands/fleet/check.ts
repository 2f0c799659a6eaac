import { EXIT } from '../../process/index.ts';
import type { FleetSpec } from '../../scheduler/spec.ts';
import { plural } from '../../show/format.ts';
import { columns, print, printNote } from '../terminal.ts';
import { costOf, costText, dollars, totalCost } from './cost.ts';
import { readFleetFile } from './file.ts';

const HOURS_A_DAY = 24;

/**
 * Runs `worker-vllm fleet check FILE`: prints warnings on stderr, and what the fleet costs on stdout.
 * @returns the exit code
 * @throws UserError with all faults
 */
export async function runFleetCheck(path: string, env: NodeJS.ProcessEnv): Promise<number> {
  const { spec, warnings } = await readFleetFile(path, env);
  for (const warning of warnings) printNote(warning);
  const counts = `${plural(Object.keys(spec.pools).length, 'pool')}, ${plural(Object.keys(spec.providers).length, 'provider')}`;
  print(`${path} is in order: ${counts}.\n\n${costLines(spec).join('\n')}`);
  return EXIT.ok;
}

/** Returns what a fleet costs at `min` and at `max`, US dollars, and how much of that the budget allows. */
export function costLines(spec: FleetSpec): string[] {
  const row = (name: string, min: number, max: number, costs: [string, string, string, string]) => {
    const [minHour, minDay, maxHour, maxDay] = costs;
    return [name, String(min), minHour, minDay, String(max), maxHour, maxDay];
  };
  const rows = Object.entries(spec.pools).map(([id, pool]) => {
    const [least, most] = [costOf(spec, pool, pool.min), costOf(spec, pool, pool.max)];
    return row(id, pool.min, pool.max, bothTexts(least, most));
  });
  const workers = (of: 'min' | 'max') => Object.values(spec.pools).reduce((sum, each) => sum + each[of], 0);
  const [least, most] = [totalCost(spec, ({ min }) => min), totalCost(spec, ({ max }) => max)];
  const total = row('all', workers('min'), workers('max'), bothTexts(least, most));
  const head = ['CONFIG', 'MIN', '$/HOUR', '$/DAY', 'MAX', '$/HOUR', '$/DAY'];
  return [...columns([head, ...rows, ...(rows.length > 1 ? [total] : [])]), '', ...budgetLines(spec)];
}

function bothTexts(
  least: ReturnType<typeof costOf>,
  most: ReturnType<typeof costOf>,
): [string, string, string, string] {
  return [costText(least), costText(least, HOURS_A_DAY), costText(most), costText(most, HOURS_A_DAY)];
}

function budgetLines(spec: FleetSpec): string[] {
  const { per_hour, per_day } = spec.budget;
  const { to, isPartial } = totalCost(spec, ({ max }) => max);
  const limits = [
    ...(per_hour === undefined ? [] : [{ limit: per_hour, cost: to, span: 'an hour' }]),
    ...(per_day === undefined ? [] : [{ limit: per_day, cost: to * HOURS_A_DAY, span: 'a day' }]),
  ];
  if (limits.length === 0) return ['There is no budget: max alone bounds what it costs.'];
  return limits.map(({ limit, cost, span }) => {
    const budget = `The budget of $${dollars(limit)} ${span}`;
    if (cost > limit) return `${budget} is less than all of it at max: no worker is started beyond it.`;
    return isPartial
      ? `${budget} may be less than all of it at max, which only providers know: no worker is started beyond it.`
      : `${budget} allows all of it at max.`;
  });
}
