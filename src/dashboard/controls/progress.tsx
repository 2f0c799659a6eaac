import { percent } from '../format.ts';

/** How much of something is done; null: nothing tells. @param share from 0 to 1 */
export function Progress({ share, label }: { share: number | null; label: string }) {
  if (share === null) return null;
  return (
    <progress class="progress" max={1} value={share} aria-label={label} title={percent(share)}>
      {percent(share)}
    </progress>
  );
}
