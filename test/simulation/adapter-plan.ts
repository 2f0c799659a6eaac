import { Random } from '../support/random.ts';

/** LoRA adapters that a worker can load: which, and how many at once. */
export interface AdapterPlan {
  names: string[];
  room: number;
}

export const ADAPTERS = ['red', 'green', 'blue'];

/** In one run of three there are some; now and then a worker lacks one of them, or all. */
function haveAdapters(seed: number): boolean {
  return new Random(seed, 'adapters').chance(1 / 3);
}

export function drawAdapters(seed: number, worker: string): AdapterPlan | null {
  const random = new Random(seed, `adapters of ${worker}`);
  if (!haveAdapters(seed) || random.chance(0.15)) return null;
  const names = random.chance(0.3) ? ADAPTERS.slice(1) : ADAPTERS;
  return { names, room: random.int(1, 2) };
}

/** The adapter that a caller asks for; null: none. */
export function drawAdapter(seed: number, caller: number): string | null {
  const random = new Random(seed, `adapter ${caller}`);
  return haveAdapters(seed) && random.chance(0.7) ? random.pick(ADAPTERS) : null;
}
