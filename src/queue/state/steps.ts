import type { Alias, Cause } from '../../aliases/alias.ts';
import { causesAfter, nextStep, type Step, startingLimit, stepsOf } from '../../aliases/resolve.ts';
import type { PoolChoice } from '../../fleet/rpc.ts';
import {
  type Fall,
  type JobAlias,
  type KnownPools,
  type StepView,
  type Unserved,
  unservedOf,
} from '../rpc.ts';
import { livePool } from './pools.ts';
import type { Core } from './state.ts';
import { isLeaving, mayRun, servesModel } from './worker.ts';

/** The facts that decide which model a name means. */
interface Asked {
  model: string | null;
  /** The conversation that the request belongs to, as its caller names it. */
  session?: string;
  tenant?: string | null;
  /** The pools that the fleet object knows, by the models that no worker serves. */
  known?: KnownPools;
  /** The choice for a model of which nothing is known; left out: the fleet object is to be asked. */
  unknown?: PoolChoice;
  /** The step that the request leaves, and why; left out: it begins. */
  fell?: Fall;
  /** How long the request waits for a worker, ms; left out: it is a stored job. */
  wait_for_worker_ms?: number;
}

/** The model that a request goes to, and its pool. */
export interface Resolved {
  model: string | null;
  choice: PoolChoice;
  /** The step of the alias that was asked for; null: the request asks for the model itself. */
  step: TakenStep | null;
}

/** A step of an alias that a request goes to. */
export interface TakenStep extends StepView {
  alias: string;
  /** Why the request is not at the first step; null: it is. */
  fell: Cause | null;
  /** How long the request waits for a start, ms, before it goes on; null: as long as others. */
  starting_ms: number | null;
}

/**
 * Decides which model a request goes to: the one that it names, or a step of the alias that it names. A step that has
 * no worker, and for which none can be started, is passed over where the alias says so.
 * @param id tells the request from all others
 * @returns what the fleet object is to be asked for where that cannot be decided
 */
export function resolve(core: Core, asked: Asked, id: string): Resolved | Unserved {
  const { model, known, unknown = null } = asked;
  const poolOf = (name: string | null) => livePool(core, name) ?? knownPool(known, name) ?? unknown;
  if (!core.aliases.has(model)) {
    const choice = poolOf(model);
    return choice === null ? unservedOf([model]) : { model, choice, step: null };
  }
  const steps = stepsOf(core.aliases.table, model, keyOf(asked, id, core.aliases.table[model]!));
  const first = beginning(steps, asked.fell);
  /** The first step whose pool is known, where none is served: its worker may come back. */
  let away: number | null = null;
  for (let index: number | null = first; index !== null; index = nextStep(steps, index, 'no_worker')) {
    const choice = poolOf(steps[index]!.model);
    if (choice === null)
      return unservedOf(steps.slice(index).flatMap(({ model }) => (poolOf(model) ? [] : [model])));
    if (!isServed(core, steps[index]!.model, choice)) {
      if (choice.kind === 'pool') away ??= index;
      continue;
    }
    const cause = index > first ? 'no_worker' : (asked.fell?.cause ?? null);
    return { model: steps[index]!.model, choice, step: taken(model, steps, index, cause) };
  }
  const index = away ?? first;
  const choice = poolOf(steps[index]!.model) as PoolChoice;
  const step = taken(model, steps, index, index > first ? 'no_worker' : (asked.fell?.cause ?? null));
  // Who waits for a worker may find one at another step afterwards; who does not need not ask for each of them.
  const causes = asked.wait_for_worker_ms
    ? step.causes
    : step.causes.filter((cause) => cause !== 'no_worker');
  return { model: step.model, choice, step: { ...step, causes } };
}

/**
 * Returns the step of an alias for a job that is for a certain pool: the first one that a worker of the pool serves.
 * @returns null if the job names no alias, or no worker of the pool serves one of its models
 */
export function stepIn(
  core: Core,
  asked: { model?: string; session?: string; tenant?: string | null },
  id: string,
  configId: string,
): TakenStep | null {
  const { model = null } = asked;
  if (!core.aliases.has(model)) return null;
  const steps = stepsOf(core.aliases.table, model, keyOf(asked, id, core.aliases.table[model]!));
  const workers = core.workers.all().filter(({ session }) => session.config_id === configId);
  const index = steps.findIndex(({ model }) => workers.some((worker) => servesModel(worker, model)));
  return index < 0 ? null : taken(model, steps, index, index > 0 ? 'no_worker' : null);
}

/** Returns the pool that the fleet object has told for a model; null if it has not been asked. */
export function knownPool(known: KnownPools | undefined, name: string | null): PoolChoice | null {
  return known?.find(([model]) => model === name)?.[1] ?? null;
}

/** Returns the step that a request goes to first: a table that was changed meanwhile may have none behind its last. */
function beginning(steps: readonly Step[], fell: Fall | undefined): number {
  if (fell === undefined) return 0;
  const from = Math.min(fell.from, steps.length - 1);
  return nextStep(steps, from, fell.cause) ?? from;
}

function taken(alias: string, steps: readonly Step[], index: number, fell: Cause | null): TakenStep {
  return {
    alias,
    index,
    model: steps[index]!.model,
    fell: index === 0 ? null : fell,
    causes: causesAfter(steps, index),
    starting_ms: startingLimit(steps, index),
  };
}

/** Returns what stays with one model of the alias. */
function keyOf(
  { session, tenant }: Pick<Asked, 'session' | 'tenant'>,
  id: string,
  { split: { by } }: Alias,
): string {
  if (by === 'request') return id;
  return (by === 'session' ? session : undefined) ?? tenant ?? (by === 'session' ? id : '');
}

/** Returns what a job keeps of the step that it takes. */
export function jobAlias(step: TakenStep | null): JobAlias | null {
  return step && { name: step.alias, fell: step.fell };
}

/** Says whether a model has a worker, or gets one: a step without either is absent. */
function isServed(core: Core, model: string, choice: PoolChoice): boolean {
  const now = core.now();
  if (core.workers.all().some((worker) => !isLeaving(worker) && mayRun(worker, model))) return true;
  if (core.workers.expectedUntil(now, (worker) => mayRun(worker, model)) > now) return true;
  if (choice.kind !== 'pool') return false;
  const start = choice.start ?? core.starts.of(choice.config_id);
  return start !== null && start.state !== 'stopped';
}
