import { workerName } from '../../protocol/worker-name.ts';
import { UNKNOWN } from '../format.ts';
import { href } from '../router.ts';

/** A worker by the name that it has everywhere; its id on hover. Null: it is not known, or there is none. */
export function WorkerLink({ id }: { id: string | null }) {
  if (id === null) return UNKNOWN;
  return (
    <a href={href(`workers/${encodeURIComponent(id)}`)} title={id}>
      {workerName(id)}
    </a>
  );
}
