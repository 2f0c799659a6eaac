import { Random } from '../support/random.ts';

/** What providers do with their spot machines. */
export const SPOT_KINDS = [
  /** All of a provider's spot machines are taken back within ten seconds. */
  'spot_storm',
  /** One is taken back after a notice, rather one that is still starting. */
  'spot_notice',
  /** One is stopped, and comes back as the same machine if nobody has destroyed it. */
  'spot_returns',
] as const;
export type SpotKind = (typeof SPOT_KINDS)[number];

export function isSpotKind(kind: string): kind is SpotKind {
  return (SPOT_KINDS as readonly string[]).includes(kind);
}

const MACHINES = [
  { provider: 'cloud', instance_type: 'small', price_per_hour: 0.4, spot: true },
  { provider: 'other', instance_type: 'big', price_per_hour: 0.5, spot: true },
];

/** What a pool has of spot machines: seldom any. */
export function drawSpot(seed: number, id: string): { machines: object[]; pool: object } {
  const random = new Random(seed, `spot of ${id}`);
  if (!random.chance(0.4)) return { machines: [], pool: {} };
  const machines = random.chance(0.4) ? MACHINES : [random.pick(MACHINES)];
  const spot = { back_after: 300, ...(random.chance(0.5) && { base: random.int(0, 2) }) };
  return { machines, pool: { spot } };
}
