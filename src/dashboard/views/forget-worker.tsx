import type { WorkerRow } from '../../protocol/fleet-view.ts';
import { ask } from '../api.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { go } from '../router.ts';
import { isAdmin } from '../session.ts';

/** Shows the button that removes a worker that is gone from lists, verdict and attention. */
export function ForgetWorker({ worker: { worker_id, state, connected_at } }: { worker: WorkerRow }) {
  const { act, isActing, problem } = useAction();
  const isGone = state === 'error' || state === 'lost' || state === 'stopped' || state === 'late';
  if (!isAdmin.value || !isGone || connected_at !== null) return null;
  const forget = () =>
    act(async () => {
      await ask(`api/workers/${encodeURIComponent(worker_id)}`, { method: 'DELETE' });
      go('');
    });
  return (
    <div class="actions">
      <button type="button" class="danger" onClick={forget} disabled={isActing}>
        Forget this worker
      </button>
      <span class="dim">It goes from lists, verdict and attention until it is heard of again.</span>
      <Problem text={problem} />
    </div>
  );
}
