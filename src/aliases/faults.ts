import { fieldsOf } from '../protocol/index.ts';
import { MOST_DEPTH } from './alias.ts';

export interface AliasFault {
  /** The place of the fault, from the alias on. */
  path: PropertyKey[];
  message: string;
  /** Whether the fault is of the name at that place, not of its value. */
  isOfKey?: true;
}

/**
 * Returns what is wrong with a table of aliases beyond the form of its fields. The value may be anything, since its
 * own faults are reported beside these.
 * @param models the pools' models and other names, by the pool that has them
 */
export function aliasFaults(aliases: unknown, models: ReadonlyMap<string, string>): AliasFault[] {
  const table = fieldsOf(aliases);
  return Object.entries(table).flatMap(([name, alias]) => [
    ...nameFaults(name, models),
    ...weightFaults(name, alias),
    ...ownFaults(name, alias),
    ...nestingFaults(name, table),
    ...mirrorFaults(name, table),
  ]);
}

function nameFaults(name: string, models: ReadonlyMap<string, string>): AliasFault[] {
  const pool = models.get(name);
  const what =
    name === 'default'
      ? 'is the model that is there'
      : pool !== undefined && `is a model of the pool ${pool}`;
  return what ? [{ path: [name], message: `${what}: an alias needs a name of its own`, isOfKey: true }] : [];
}

function weightFaults(name: string, alias: unknown): AliasFault[] {
  const { to } = fieldsOf(alias);
  if (!Array.isArray(to) || to.length === 0) return [];
  const isNothing = to.every((target) => fieldsOf(target).weight === 0);
  return isNothing ? [{ path: [name, 'to'], message: 'the weights add up to 0: give one model more' }] : [];
}

/** Reports models that an alias names twice, and fall-backs without a cause or the reverse. */
function ownFaults(name: string, alias: unknown): AliasFault[] {
  const { on } = fieldsOf(alias);
  const faults: AliasFault[] = [];
  const seen = new Set<string>();
  for (const { model, path, isFallBack } of stepsIn(alias)) {
    if (seen.has(model)) {
      const message = isFallBack
        ? `"${model}" is among the models before it, so a request would fall back to where it came from`
        : `"${model}" is there twice: add its weights up`;
      faults.push({ path: [name, ...path], message });
    }
    seen.add(model);
    if (isFallBack && (on === undefined || (Array.isArray(on) && on.length === 0))) {
      const message = 'no request ever falls back without a cause: write on: [no_worker], or more';
      return [...faults, { path: [name, 'then'], message }];
    }
  }
  return faults;
}

function nestingFaults(name: string, table: Readonly<Record<string, unknown>>): AliasFault[] {
  const faults: AliasFault[] = [];
  for (const { model, path } of stepsIn(table[name])) {
    const nesting = nestingOf(table, model, [name]);
    if (typeof nesting !== 'number') {
      const message = `the alias leads back to itself: ${[...nesting, name].join(' → ')}`;
      faults.push({ path: [name, ...path], message });
    } else if (nesting >= MOST_DEPTH) {
      const message = `aliases of aliases may be ${MOST_DEPTH} deep, and this is deeper`;
      faults.push({ path: [name, ...path], message });
    }
  }
  return faults;
}

/** Reports a mirror that is an alias: its copies are compared by model. */
function mirrorFaults(name: string, table: Readonly<Record<string, unknown>>): AliasFault[] {
  const { model } = fieldsOf(fieldsOf(table[name]).mirror);
  if (typeof model !== 'string' || !Object.hasOwn(table, model)) return [];
  return [{ path: [name, 'mirror', 'model'], message: `"${model}" is an alias: name one model` }];
}

/** Returns how many aliases are below a name, the name's own included, or the circle that leads back to the first. */
function nestingOf(
  table: Readonly<Record<string, unknown>>,
  model: string,
  above: readonly string[],
): number | readonly string[] {
  if (model === above[0]) return above;
  // A circle among the aliases below is reported with these.
  if (!Object.hasOwn(table, model) || above.includes(model)) return 0;
  let deepest = 0;
  for (const step of stepsIn(table[model])) {
    const below = nestingOf(table, step.model, [...above, model]);
    if (typeof below !== 'number') return below;
    deepest = Math.max(deepest, below);
  }
  return deepest + 1;
}

/** Returns the models that an alias names, with their places. External ones are no names of aliases. */
function stepsIn(alias: unknown): { model: string; path: PropertyKey[]; isFallBack: boolean }[] {
  const { to, then } = fieldsOf(alias);
  const targets = Array.isArray(to) ? to : [];
  const fallBacks = Array.isArray(then) ? then : [];
  return [
    ...targets.flatMap((target, index) => {
      const { model } = fieldsOf(target);
      return typeof model === 'string' ? [{ model, path: ['to', index, 'model'], isFallBack: false }] : [];
    }),
    ...fallBacks.flatMap((step, index) =>
      typeof step === 'string' ? [{ model: step, path: ['then', index], isFallBack: true }] : [],
    ),
  ];
}
