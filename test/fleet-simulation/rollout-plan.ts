import { Random } from '../support/random.ts';

/** What becomes of workers that are started with a version. */
const FATES = [
  'sound',
  'slow',
  'never_registers',
  /** They end at the real token that they ask their engine for. */
  'dies_at_first_token',
  /** They are ready, and end soon after. */
  'dies_serving',
  /** Half of their answers fail. */
  'garbage',
] as const;
export type Fate = (typeof FATES)[number];

/** The variable by which a played worker knows its fate. */
export const FATE_VARIABLE = 'FATE';

/** An operator rolls every pool, at a time in s from the beginning. */
export interface PlannedRollout {
  at: number;
  what:
    | { kind: 'file'; fate: Fate }
    /** By the file of before. */
    | { kind: 'file_back' }
    | { kind: 'back' | 'anew' | 'pause' | 'resume' };
}

/** What a pool says of its rollouts. */
export function drawUpdate(seed: number, id: string): object {
  const random = new Random(seed, `update of ${id}`);
  const surge = random.pick([0, 1, 1, 1, 2, 3]);
  const unavailable = surge === 0 ? 1 : random.pick([0, 0, 0, 1]);
  const canary = { share: random.pick([0.1, 0.5]), for: random.int(30, 300) };
  return { surge, unavailable, patience: random.pick([0, 60, 600]), ...(random.chance(0.2) && { canary }) };
}

/** Some rollouts while there is work: changes, changes back at any moment, and holds. */
export function drawRollouts(seed: number): PlannedRollout[] {
  const random = new Random(seed, 'rollouts');
  if (!random.chance(0.6)) return [];
  const rollouts: PlannedRollout[] = [];
  let at = random.int(150, 900);
  for (let count = random.int(1, 4); count > 0; count -= 1) {
    const fate = random.chance(0.4) ? 'sound' : random.pick([...FATES]);
    rollouts.push({ at, what: { kind: 'file', fate } });
    if (random.chance(0.2)) {
      const from = at + random.int(1, 200);
      rollouts.push({ at: from, what: { kind: 'pause' } });
      rollouts.push({ at: from + random.int(10, 300), what: { kind: 'resume' } });
    }
    // Soon, in the middle of it, or when it is long over.
    at += random.int(1, random.pick([30, 400, 1200]));
    if (random.chance(0.5)) {
      const kind = random.pick(['file_back', 'back', 'anew'] as const);
      rollouts.push({ at, what: { kind } });
      at += random.int(1, random.pick([30, 600]));
    }
  }
  return rollouts;
}
