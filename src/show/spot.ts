import type { PoolScaling } from '../protocol/scaling.ts';
import { money, plural } from './format.ts';

/** Says what a pool's spot machines did in the newest week; null: it had none. */
export function spotInWords({ spot }: Pick<PoolScaling, 'spot'>): string | null {
  if (spot === null) return null;
  const { lost, moved, repeated, saved } = spot;
  const requests = lost === 0 ? '' : `, ${plural(moved, 'request')} moved, ${repeated} repeated`;
  const machines = `Lost to preemption this week: ${lost === 0 ? 'no machine' : plural(lost, 'machine')}${requests}`;
  if (saved === null) return `${machines}.`;
  const more = saved < 0 ? 'spent beyond' : 'saved against';
  return `${machines}. ${money(Math.abs(saved))} ${more} on-demand.`;
}
