import { PerformanceObserver } from 'node:perf_hooks';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';

/** The bound of the young generation, both halves together, bytes. docs/decisions/package.md has the figures. */
const YOUNG_BYTES = 16 * 2 ** 20;
/** V8 collects the old generation when it has grown by this percentage, rather than to four times its size. */
const OLD_GROWTH = 60;

/**
 * Bounds the unused memory that V8 keeps: by itself it lets the young generation of a busy queue grow to 128 MB. V8's
 * flag for that bound works only at the start of a process, and the program that starts this one may not know it. So
 * this function stops the growth at the bound, and allows it again after V8 has shrunk the generation.
 * @returns ends the bounding
 */
export function boundHeap(): () => void {
  setFlagsFromString(`--heap-growing-percent=${OLD_GROWTH}`);
  let factor = 0;
  const look = () => {
    const wanted = youngBytes() < YOUNG_BYTES ? 2 : 1;
    if (wanted !== factor) setFlagsFromString(`--semi-space-growth-factor=${wanted}`);
    factor = wanted;
  };
  look();
  // The young generation grows at the end of a collection.
  const collections = new PerformanceObserver(look);
  collections.observe({ entryTypes: ['gc'] });
  return () => collections.disconnect();
}

function youngBytes(): number {
  return getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')?.space_size ?? 0;
}
