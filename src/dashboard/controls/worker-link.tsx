import { workerName } from '../../protocol/scaling.ts';
import { UNKNOWN } from '../../show/format.ts';
import { href } from '../router.ts';

/**
 * Shows a worker by its name, the same in all views, and its id on hover. @param id null: there is none, or it is not
 * known
 */
export function WorkerLink({ id }: { id: string | null }) {
  if (id === null) return UNKNOWN;
  return (
    <a class="from-end" href={href(`workers/${encodeURIComponent(id)}`)} title={id}>
      <bdi>{workerName(id)}</bdi>
    </a>
  );
}
