import { workerName } from '../../protocol/worker-name.ts';
import { href } from '../router.ts';

/** A worker by the name that it has everywhere; its id on hover. */
export function WorkerLink({ id }: { id: string }) {
  return (
    <a href={href(`workers/${encodeURIComponent(id)}`)} title={id}>
      {workerName(id)}
    </a>
  );
}
