import type { WorkerRow } from '../../protocol/fleet-view.ts';
import * as format from '../../show/format.ts';
import { now } from '../clock.ts';
import { Time } from '../controls/time.tsx';

/** The steps of a start, with the name of what happens before each. */
const STEPS = [
  { to: 'engine_started_ms', name: 'Preparing' },
  { to: 'weights_loaded_ms', name: 'Loading weights' },
  { to: 'engine_healthy_ms', name: 'Warming up' },
  { to: 'first_job_ms', name: 'Waiting for a job' },
] as const;

interface Step {
  name: string;
  /** The step's length, ms; the current step counts until now. */
  length: number;
  /** The state of the step. A `rest` step is usually still to come; in a `failed` one the start ended. */
  state: 'done' | 'now' | 'rest' | 'failed';
}

/** Shows the start of a worker's container step by step, to scale, beside how long it usually takes. */
export function ColdStart({ worker }: { worker: WorkerRow }) {
  const { start, expected_start_ms, state } = worker;
  const created = start.created_ms ?? start.engine_started_ms;
  if (created === undefined) return null;
  const isOver = state === 'lost' || state === 'stopped' || state === 'error';
  const hasFailed = isOver && start.engine_healthy_ms === undefined;
  const steps = stepsOf(worker, now.value, isOver);
  const toHealthy = (start.engine_healthy_ms ?? (isOver ? created : now.value)) - created;
  const isSlow = expected_start_ms !== null && toHealthy > expected_start_ms * 1.2;
  return (
    <section class="cold-start" aria-label="Start of the container">
      <h2>Start</h2>
      <p class={isSlow ? 'warn' : 'dim'}>
        It began at <Time at={created} />
        {start.engine_healthy_ms === undefined
          ? hasFailed
            ? ' and ended before the engine was healthy'
            : '; the engine is not healthy yet after '
          : '; the engine was healthy after '}
        {!hasFailed && (
          <span class="number">
            {start.engine_healthy_ms === undefined ? format.age(toHealthy) : format.duration(toHealthy)}
          </span>
        )}
        .
        {expected_start_ms !== null && (
          <>
            {' '}
            Starts of this pool usually take <span class="number">{format.duration(expected_start_ms)}</span>.
          </>
        )}
      </p>
      <ol>
        {steps.map(({ name, length, state }) => (
          <li key={name} class={state} style={{ flexGrow: Math.max(length, 1) }}>
            <span class="bar" />
            <span>{name}</span>
            <b class="number">{format.duration(length)}</b>
          </li>
        ))}
      </ol>
    </section>
  );
}

/**
 * Returns the steps; a step whose end was not reported is part of the next one whose end was. @param isOver whether the
 * start has ended
 */
function stepsOf(worker: WorkerRow, now: number, isOver: boolean): Step[] {
  const { start, expected_start_ms, state_since, heartbeat_at } = worker;
  const steps: Step[] = [];
  const created = start.created_ms ?? start.engine_started_ms!;
  let from = created;
  for (const { to, name } of STEPS) {
    const at = start[to];
    if (at === undefined) continue;
    if (at > from) steps.push({ name, length: at - from, state: 'done' });
    from = at;
  }
  const next = STEPS.find(({ to }) => start[to] === undefined);
  const isServing = start.engine_healthy_ms !== undefined;
  if (isServing || !next) return steps;
  if (isOver) {
    const end = state_since ?? heartbeat_at ?? from;
    return [...steps, { name: `${next.name}: ended`, length: Math.max(0, end - from), state: 'failed' }];
  }
  if (now <= from) return steps;
  steps.push({ name: next.name, length: now - from, state: 'now' });
  const left = expected_start_ms === null ? 0 : created + expected_start_ms - now;
  if (left > 0) steps.push({ name: 'Usually left', length: left, state: 'rest' });
  return steps;
}
