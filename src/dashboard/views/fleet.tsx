import { WorkerMark } from '../controls/state.tsx';
import { fleet } from '../live.ts';
import { href } from '../router.ts';

/** Every worker. */
export function FleetView() {
  const workers = fleet.value?.workers ?? [];
  return (
    <ul>
      {workers.map(({ worker_id, state }) => (
        <li key={worker_id}>
          <WorkerMark state={state} />{' '}
          <a href={href(`workers/${encodeURIComponent(worker_id)}`)}>{worker_id}</a>
        </li>
      ))}
    </ul>
  );
}
