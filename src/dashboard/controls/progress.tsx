import { percent } from '../../show/format.ts';

/** Shows how much of something is done; nothing where that is unknown. @param share from 0 to 1, or null */
export function Progress({ share, label }: { share: number | null; label: string }) {
  if (share === null) return null;
  return (
    <progress class="progress" max={1} value={share} aria-label={label} title={percent(share)}>
      {percent(share)}
    </progress>
  );
}
