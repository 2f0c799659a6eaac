import type { Waiting } from '../../protocol/waiting.ts';
import { Time } from './age.tsx';

/** Shows what something waits for, until when, and what can be done. */
export function WaitingFor({ waiting }: { waiting: Waiting }) {
  const { until, advice } = waiting;
  return (
    <p class="why">
      Waits because {waiting.for}
      {until !== null && (
        <>
          {' '}
          (until <Time at={Date.parse(until)} />)
        </>
      )}
      .{advice !== null && ` ${advice}`}
    </p>
  );
}
