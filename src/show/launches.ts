import { failureInWords, isFinal, type LaunchRow } from '../protocol/scaling.ts';

/** The steps of a launch to a worker that takes jobs, in order: a worker registers once its engine has loaded. */
export const LAUNCH_STEPS = ['Accepted', 'Container', 'Loading', 'Registered', 'Ready'] as const;

/** Returns how many of the steps are done; a reported step implies those before it. */
export function stepsDone(launch: LaunchRow): number {
  if (launch.ready_at !== null) return LAUNCH_STEPS.length;
  if (launch.registered_at !== null) return 4;
  if (launch.started_at !== null || launch.loading !== null) return 2;
  return launch.accepted_at === null ? 0 : 1;
}

/** Returns the state of each step of a start: the one at which a start failed is told from those never reached. */
export function stepStates(launch: LaunchRow): ('done' | 'now' | 'failed' | 'rest')[] {
  const done = stepsDone(launch);
  const isOver = isFinal(launch) || launch.state === 'terminating';
  const next = !isOver ? 'now' : launch.cause !== null ? 'failed' : 'rest';
  return LAUNCH_STEPS.map((_, index) => (index < done ? 'done' : index === done ? next : 'rest'));
}

/** Says what a launch does now, in a few words. */
export function doingNow(launch: LaunchRow): string {
  const { state, loading, provider, ready_at } = launch;
  switch (state) {
    case 'intended':
      return 'waits for a launcher';
    case 'requested':
      return `asked ${provider}`;
    case 'registered':
      return 'its engine is not healthy yet';
    case 'accepted':
      if (loading) return loading.phase ?? 'loading';
      return launch.started_at === null ? 'the container is made' : 'the container runs';
    case 'ready':
      return 'takes jobs';
    case 'draining':
      return 'finishes what it runs';
    case 'terminating':
      return launch.cause === null ? 'is terminated' : `is terminated: ${failureInWords(launch)}`;
    case 'gone':
      return ready_at === null ? 'ended before it was ready' : 'done';
    case 'failed':
      return failureInWords(launch);
  }
}

const UNDER_WAY: LaunchRow['state'][] = [
  'registered',
  'accepted',
  'requested',
  'intended',
  'draining',
  'terminating',
];

/** Returns whether the launch's machine is starting or ending. */
export function isUnderWay({ state }: LaunchRow): boolean {
  return UNDER_WAY.includes(state);
}

/** Sorts launches: starting ones first, then those that end, then those that work or have ended; the newest first. */
export function sortLaunches(launches: readonly LaunchRow[]): LaunchRow[] {
  const rank = ({ state }: LaunchRow) =>
    UNDER_WAY.includes(state) ? UNDER_WAY.indexOf(state) : UNDER_WAY.length;
  return [...launches].sort((a, b) => rank(a) - rank(b) || b.intended_at - a.intended_at);
}

/**
 * Returns the launches for which there is room: those under way, and the newest others in the remaining room. A shown
 * launch keeps its place until it is no longer under way and another launch needs the place, so that no row moves.
 * @param before the launches that were last shown
 */
export function keepLaunches(
  before: readonly LaunchRow[],
  launches: readonly LaunchRow[],
  most: number,
): LaunchRow[] {
  const left = new Map(launches.map((launch) => [launch.id, launch]));
  const shown = before.flatMap(({ id }) => left.get(id) ?? []);
  for (const { id } of shown) left.delete(id);
  for (const launch of sortLaunches([...left.values()])) {
    const last = sortLaunches(shown).at(-1);
    if (shown.length < most) shown.push(launch);
    else if (last && !isUnderWay(last) && isUnderWay(launch)) shown[shown.indexOf(last)] = launch;
  }
  return shown;
}
