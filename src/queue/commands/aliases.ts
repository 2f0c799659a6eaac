import { type AliasTable, MOST_DEPTH } from '../../aliases/alias.ts';
import { aliasNamed } from '../../aliases/resolve.ts';
import { type AskedModel, isUnserved, type KnownPools, type Unserved } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { resolve, stepIn } from '../state/steps.ts';

/** Returns the names that stand for models. */
export function aliases(core: Core): AliasTable {
  return core.aliases.table;
}

/** Says whether aliases that the fleet object reports are not the ones in force. */
export function differs(core: Core, reported: AliasTable): boolean {
  return core.aliases.differs(reported);
}

/** Takes the aliases of the fleet's file. */
export function takeAliases(core: Core, reported: AliasTable): void {
  core.aliases.replace(reported);
}

/**
 * Chooses the model for a job that asks for an alias: the first step that has a worker, else the first one. Of a job
 * that names its pool, it is a step that the pool serves; a job that is there already keeps its own, so that it may be
 * submitted again.
 * @returns null if the job names no alias; what the fleet object is to be asked for where that cannot be decided
 */
export function chosenModel(
  core: Core,
  asked: AskedModel & { known?: KnownPools },
  id: string,
): string | null | Unserved {
  const { model, config_id } = asked;
  if (!core.aliases.has(model)) return null;
  const existing = core.stored.find(id)?.model;
  if (existing) return existing;
  const step = config_id === undefined ? null : stepIn(core, { ...asked, model }, id, config_id);
  if (step !== null) return step.model;
  const resolved = resolve(core, asked, id);
  return isUnserved(resolved) ? resolved : resolved.model;
}

/**
 * Returns for each name the model that most of its requests go to, which is the name itself where it is no alias.
 */
export function mainModels(core: Core, names: readonly (string | null)[]): (string | null)[] {
  return names.map((name) => (core.aliases.has(name) ? mainModel(core, name) : name));
}

function mainModel({ aliases: { table } }: Core, name: string): string {
  let model = name;
  // A table that is made of two sources may be a circle.
  for (let depth = 0; depth <= MOST_DEPTH; depth++) {
    const alias = aliasNamed(table, model);
    if (alias === undefined) return model;
    model = alias.to.reduce((one, other) => (other.weight > one.weight ? other : one)).model;
  }
  return model;
}
