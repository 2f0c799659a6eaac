import { type AliasTable, MOST_DEPTH } from '../../aliases/alias.ts';
import { aliasNamed } from '../../aliases/resolve.ts';
import { isUnserved } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { resolve } from '../state/steps.ts';

/** Returns the names that stand for models. */
export function aliases(core: Core): AliasTable {
  return core.aliases.table;
}

/** Says whether aliases that the fleet object reports are not the ones in force. */
export function differs(core: Core, told: AliasTable): boolean {
  return core.aliases.differs(told);
}

/** Takes the aliases of the fleet's file. */
export function hearAliases(core: Core, told: AliasTable): void {
  core.aliases.replace(told);
}

/**
 * Chooses the model for a job that asks for an alias: the first step that has a worker, else the first one.
 * @returns null if the job names no alias
 */
export function chosenModel(
  core: Core,
  asked: { model: string | null; session?: string; tenant?: string | null },
  id: string,
): string | null {
  const resolved = core.aliases.has(asked.model) ? resolve(core, asked, id) : null;
  if (resolved === null) return null;
  return isUnserved(resolved) ? resolved.models[0]! : resolved.model;
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
