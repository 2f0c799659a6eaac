import type { PoolScaling } from '../protocol/scaling.ts';
import { money, plural } from './format.ts';

/** Says what a pool's spot machines did in the newest week; null: it had none. */
export function spotInWords({ spot }: Pick<PoolScaling, 'spot'>): string | null {
  if (spot === null) return null;
  const { lost, saved } = spot;
  const machines = `Lost to preemption this week: ${lost === 0 ? 'no machine' : plural(lost, 'machine')}`;
  if (saved === null) return `${machines}.`;
  const more = saved < 0 ? 'spent beyond' : 'saved against';
  return `${machines}. ${money(Math.abs(saved))} ${more} on-demand.`;
}
