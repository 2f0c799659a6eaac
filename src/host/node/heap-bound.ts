import { PerformanceObserver } from 'node:perf_hooks';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';

/** How much the young generation may take, both halves together, bytes. docs/decisions/package.md has the figures. */
const YOUNG_BYTES = 16 * 2 ** 20;
/** The old generation is collected when it has grown by so much, percent: V8 by itself lets it grow to four times its size. */
const OLD_GROWTH = 60;

/**
 * Bounds what V8 keeps of memory that nothing uses: by itself it lets the young generation of a busy queue grow to
 * 128 MB. The flag for that counts at the start of a process alone, which whoever starts this one may not know. So the
 * growth is ended when it is large enough, and allowed again after V8 has made it smaller.
 * @returns ends it
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
  // It grows at the end of a collection.
  const collections = new PerformanceObserver(look);
  collections.observe({ entryTypes: ['gc'] });
  return () => collections.disconnect();
}

function youngBytes(): number {
  return getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')?.space_size ?? 0;
}
