/** A seeded source of numbers from 0 to 1 (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** One of a list. @throws Error when it is empty */
export function pick<T>(list: readonly T[], random: () => number): T {
  if (list.length === 0) throw new Error('nothing to pick from');
  return list[Math.floor(random() * list.length)]!;
}
