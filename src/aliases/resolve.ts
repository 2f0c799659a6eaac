import {
  type Alias,
  type AliasTable,
  CAUSES,
  type Cause,
  MOST_DEPTH,
  modelOf,
  type On,
  type Target,
} from './alias.ts';

/** One model that a request for an alias may go to. */
export interface Step {
  model: string;
  /** Whether the alias says that the model is served outside of this installation. */
  external: boolean;
  /** The causes for which a request goes on to this step. */
  on: readonly On[];
  /** The first step for which this one is a fall-back: an alias within an alias has fall-backs of its own. */
  since: number;
}

/**
 * Returns the models that a request for a name goes to, in order: the first is chosen by the weights, the others are
 * its fall-backs. The choice depends on the alias, its targets and the key alone, so every gateway makes the same one,
 * and a change of the weights moves only the keys that it has to.
 * @param key what stays with one model
 */
export function stepsOf(table: AliasTable, name: string, key: string): Step[] {
  const steps: Step[] = [];
  add(table, steps, { model: name, external: false, on: [], since: 0 }, key, 0);
  return steps;
}

function add(table: AliasTable, steps: Step[], step: Step, key: string, depth: number): void {
  const alias = step.external ? undefined : aliasNamed(table, step.model);
  // A table that was checked is less deep; one that is made of two sources may be a circle.
  if (alias === undefined || depth > MOST_DEPTH) {
    steps.push(step);
    return;
  }
  const since = steps.length;
  const [chosen, ...others] = ranked(step.model, alias, key);
  add(table, steps, { ...step, model: chosen!.model }, key, depth + 1);
  // Where a target has no worker, its share goes to the others by their weights, if the alias allows that.
  const isShared = alias.on.includes('no_worker');
  for (const { model } of isShared ? others : [])
    add(table, steps, { model, external: false, on: ['no_worker'], since }, key, depth + 1);
  for (const then of alias.then) {
    const external = typeof then !== 'string';
    add(table, steps, { model: modelOf(then), external, on: alias.on, since }, key, depth + 1);
  }
}

export function aliasNamed(table: AliasTable, name: string): Alias | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

/** Returns the step that a request goes on to from another one for this cause; null if there is none. */
export function nextStep(steps: readonly Step[], from: number, cause: Cause): number | null {
  for (let index = from + 1; index < steps.length; index++) {
    const { on, since, model } = steps[index]!;
    const isTried = steps.slice(0, from + 1).some((tried) => tried.model === model);
    if (since <= from && !isTried && allows(on, cause)) return index;
  }
  return null;
}

/** Returns the causes for which a request goes on from a step. */
export function causesAfter(steps: readonly Step[], from: number): Cause[] {
  return CAUSES.filter((cause) => nextStep(steps, from, cause) !== null);
}

/** Returns how long a request waits for the start of a worker before it goes on, ms; null if it does not go on. */
export function startingLimit(steps: readonly Step[], from: number): number | null {
  const next = nextStep(steps, from, 'starting_over');
  const limit = next === null ? undefined : steps[next]!.on.find((on) => typeof on === 'object');
  return limit === undefined ? null : (limit as { starting_over: number }).starting_over * 1000;
}

function allows(on: readonly On[], cause: Cause): boolean {
  return on.some((one) => (typeof one === 'string' ? one === cause : cause === 'starting_over'));
}

/**
 * Returns an alias's targets in the order in which this key prefers them (rendezvous hashing by weights): a target is
 * the first for as large a share of all keys as its weight says.
 */
function ranked(name: string, { to }: Alias, key: string): Target[] {
  const own = to.filter(({ weight }) => weight > 0);
  if (own.length === 1) return own;
  const scored = own.map((target) => ({ target, score: scoreOf(name, target, key) }));
  return scored.sort((one, other) => other.score - one.score).map(({ target }) => target);
}

function scoreOf(name: string, { model, weight }: Target, key: string): number {
  return -weight / Math.log(fraction(`${name}\0${model}\0${key}`));
}

/** Returns a number between 0 and 1, both excluded, that looks random and is the same for the same text. */
export function fraction(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  // FNV alone barely mixes the last characters into the high bits.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  hash ^= hash >>> 16;
  return ((hash >>> 0) + 0.5) / 2 ** 32;
}

/** Returns every model that requests for a name may go to, in the order in which its alias names them. */
export function targetsOf(table: AliasTable, name: string): string[] {
  const found = new Set<string>();
  const visit = (model: string, depth: number) => {
    const alias = aliasNamed(table, model);
    if (alias === undefined || depth > MOST_DEPTH) found.add(model);
    else
      for (const next of [...alias.to.map((to) => to.model), ...alias.then.map(modelOf)])
        visit(next, depth + 1);
  };
  visit(name, 0);
  return [...found];
}
