import type { LaunchRow } from '../../protocol/index.ts';
import { percent, span } from './words.ts';

/**
 * The states of a launch on its way, the nearest to ready first; `ready` is last: what is connected is known better.
 */
const ON_THE_WAY: LaunchRow['state'][] = ['registered', 'accepted', 'requested', 'intended', 'ready'];

/** Returns the launch that will be ready first, or null if none is on its way. */
export function nearestLaunch(launches: readonly LaunchRow[]): LaunchRow | null {
  const [first] = launches
    .filter(({ state }) => ON_THE_WAY.includes(state))
    .sort((a, b) => rankOf(a) - rankOf(b));
  return first ?? null;
}

function rankOf({ state, loading }: LaunchRow): number {
  return ON_THE_WAY.indexOf(state) - (loading?.progress ?? 0) / 2;
}

/** Says how far a start is: "loading 62 %, usually 3 min". Callers read it too: it says nothing of the provider. */
export function startOf(launch: LaunchRow): string {
  const { ready_expected_at, intended_at } = launch;
  const usually = ready_expected_at === null ? '' : `, usually ${span(ready_expected_at - intended_at)}`;
  return stepOf(launch) + usually;
}

function stepOf({ state, loading }: LaunchRow): string {
  if (loading) return loading.progress === null ? 'loading' : `loading ${percent(loading.progress)}`;
  if (state === 'intended' || state === 'requested') return 'waiting for a machine';
  return state === 'ready' ? 'connecting' : 'its container starts';
}
