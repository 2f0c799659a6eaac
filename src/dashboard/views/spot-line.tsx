import { spotInWords } from '../../show/spot.ts';
import type { ScaledPool } from './scaling.tsx';

/** Shows what a pool's spot machines did in the newest week; nothing if it had none. */
export function SpotLine({ pool: { scaling } }: { pool: ScaledPool }) {
  const words = spotInWords(scaling);
  return words === null ? null : <p class="dim">{words}</p>;
}
