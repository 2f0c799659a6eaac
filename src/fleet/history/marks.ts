import { type FleetHistory, type LaunchRow, workerName } from '../../protocol/index.ts';
import { span } from '../view/words.ts';

type Mark = FleetHistory['marks'][number];

/** The most marks, the newest: a chart with hundreds of them shows nothing. */
const MOST_MARKS = 100;

/**
 * Lists what happened to machines and workers since a time, oldest first.
 * @param started workers that became ready
 * @param configId null: of all pools
 */
export function marksOf(
  started: readonly { at: number; worker_id: string; took_ms: number }[],
  launches: readonly LaunchRow[],
  configId: string | null,
  from: number,
): Mark[] {
  const own = launches.filter(({ config_id }) => configId === null || config_id === configId);
  const marks: Mark[] = [
    ...started.map(({ at, worker_id, took_ms }) => ({
      at,
      kind: 'started' as const,
      text: `${workerName(worker_id)} is ready after ${span(took_ms)}`,
    })),
    ...own.flatMap(marksOfLaunch),
  ];
  return marks
    .filter(({ at }) => at >= from)
    .sort((a, b) => a.at - b.at)
    .slice(-MOST_MARKS);
}

function marksOfLaunch(launch: LaunchRow): Mark[] {
  const { config_id, intended_at, ended_at, state } = launch;
  const name = workerName(launch.name);
  const marks: Mark[] = [{ at: intended_at, kind: 'launched', text: `${name} launched for ${config_id}` }];
  if (ended_at === null) return marks;
  return [
    ...marks,
    state === 'failed'
      ? { at: ended_at, kind: 'failed', text: `${name} failed` }
      : { at: ended_at, kind: 'ended', text: `${name} ended` },
  ];
}
