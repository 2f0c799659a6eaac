import {
  type FleetView,
  failureAndCause,
  isFinal,
  type LaunchRow,
  type PoolRow,
} from '../../protocol/index.ts';
import { age, duration } from '../../show/format.ts';
import { dollars } from './cost.ts';

/**
 * Returns what the scheduler and its machines did between two views of a fleet, a sentence each, for somebody who
 * watches.
 * @param before null: `after` is the first view, which is summed up
 */
export function happenings(before: FleetView | null, after: FleetView): string[] {
  if (before === null) return after.pools.flatMap((pool) => presentOf(pool));
  const known = new Map(before.launches.map((launch) => [launch.id, launch]));
  const launches = [...after.launches].sort((a, b) => a.intended_at - b.intended_at);
  const begun = launches.filter(({ id }) => !known.has(id));
  return [
    ...startsOf(begun, after),
    ...launches.flatMap((launch) => stepOf(launch, known.get(launch.id), after)),
    ...after.pools.flatMap((pool) => changesOf(pool, before)),
    ...changed(before.scaling?.budget_reached ?? null, after.scaling?.budget_reached ?? null, [
      (text) => `Budget: ${sentence(text)}`,
      'Budget: there is room again.',
    ]),
    ...providerTrouble(before, after),
  ];
}

/** Returns how many workers of a pool are ready, in a sentence. */
function presentOf({ config_id, scaling }: PoolRow): string[] {
  if (!scaling || scaling.ready + scaling.starting === 0) return [];
  const starting = scaling.starting > 0 ? `, ${scaling.starting} starting` : '';
  return [`${config_id}: ${scaling.ready} of at most ${scaling.max} workers ready${starting}.`];
}

/** Returns a sentence for each pool's launches that were decided together. */
function startsOf(begun: LaunchRow[], view: FleetView): string[] {
  const byPool = Map.groupBy(begun, ({ config_id }) => config_id);
  return [...byPool].map(([configId, launches]) => {
    const pool = view.pools.find(({ config_id }) => config_id === configId);
    const alive = view.launches.filter((launch) => launch.config_id === configId && !isFinal(launch)).length;
    const waiting = pool?.scaling?.waiting ?? 0;
    const what = launches.length === 1 ? 'a worker' : `${launches.length} workers`;
    const limit = pool?.scaling ? ` (${alive} of ${pool.scaling.max})` : '';
    const wait = waiting > 0 ? `${waiting} wait, ` : '';
    return `${configId}: ${wait}starting ${what}${limit}. ${sentence(withoutInputs(launches[0]!.reason))}`;
  });
}

function stepOf(launch: LaunchRow, before: LaunchRow | undefined, view: FleetView): string[] {
  if (launch.state === before?.state) return [];
  const { config_id: id, state } = launch;
  if (state === 'ready' && before?.state === 'draining') return [`${id}: needed again, no longer draining.`];
  if (state === 'ready') return [`${id}: ready after ${duration(launch.ready_at! - launch.intended_at)}.`];
  if (state === 'draining') return [`${id}: draining a worker. ${decisionOf(id, view)}`.trimEnd()];
  if (state === 'gone') return [`${id}: a worker has ended${costOf(launch)}.`];
  if (state === 'failed') return [`${id}: ${failureAndCause(launch)}${costOf(launch)}.`];
  // This worker failed, or was ended before it was ever ready: the sentence about its end covers it.
  if (state === 'terminating' && launch.cause !== null)
    return [`${id}: ${failureAndCause(launch)}; ending it.`];
  return [];
}

function costOf({ intended_at, ended_at, cost }: LaunchRow): string {
  if (ended_at === null || cost < 0.005) return '';
  return ` after ${age(ended_at - intended_at)}, for $${dollars(cost)}`;
}

function decisionOf(configId: string, { pools }: FleetView): string {
  const decision = pools.find(({ config_id }) => config_id === configId)?.scaling?.decision;
  return decision ? sentence(decision.text) : '';
}

function changesOf({ config_id: id, scaling }: PoolRow, { pools }: FleetView): string[] {
  const before = pools.find(({ config_id }) => config_id === id)?.scaling;
  if (!scaling || !before) return [];
  const control = scaling.control === before.control ? [] : [`${id}: ${CONTROLS[scaling.control]}`];
  const breaker = changed(before.breaker?.text ?? null, scaling.breaker?.text ?? null, [
    (text) => `${id}: no more workers are started for now. ${sentence(text)}`,
    `${id}: workers may be started again.`,
  ]);
  const isPutOff = scaling.batch_wait !== null && before.batch_wait === null && scaling.decision !== null;
  const batches = isPutOff
    ? [`${id}: ${sentence(scaling.decision!.text)} "worker-vllm fleet launch ${id}" starts one now.`]
    : [];
  return [...control, ...breaker, ...batches];
}

const CONTROLS = {
  automatic: 'workers start and end by themselves again.',
  paused: 'paused: nothing is started and nothing ended.',
  drained: 'all workers end, and none is started until it is resumed.',
};

function providerTrouble(before: FleetView, after: FleetView): string[] {
  return (after.scaling?.providers ?? []).flatMap(({ name, error }) => {
    const earlier = before.scaling?.providers.find((provider) => provider.name === name);
    // Only the first error is reported, since the words may differ each time.
    if ((error === null) === ((earlier?.error ?? null) === null)) return [];
    return error === null
      ? [`Provider ${name}: it answers again.`]
      : [`Provider ${name}: it does not say what runs there, so nothing is changed. ${sentence(error)}`];
  });
}

function changed(
  before: string | null,
  after: string | null,
  [said, over]: [(text: string) => string, string],
): string[] {
  if (after === null) return before === null ? [] : [over];
  return before === null ? [said(after)] : [];
}

/** Removes the numbers behind a decision: the dashboard shows them, and here they would hide what happens. */
function withoutInputs(reason: string): string {
  return reason.replace(/(?<=\.) \(.*\)\.?$/s, '');
}

/** Returns a text with a capital at its beginning and a full stop at its end. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  return `${trimmed.charAt(0).toUpperCase()}${trimmed.slice(1)}${/[.!?]$/.test(trimmed) ? '' : '.'}`;
}
