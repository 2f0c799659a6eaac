import * as z from 'zod';
import { chosenEngine, engineVariables } from '../engine/command/configuration.ts';
import { describeEngine } from '../engine/kinds/index.ts';
import { readEnvironment, variable } from '../process/index.ts';
import { withCrossChecks, workerVariables } from '../worker/variables.ts';
import { gpuVariables } from './gpu-preflight.ts';

const own = {
  ENGINE_RESTARTS: variable.integer(0).default(0),
  ...gpuVariables,
};

/** Returns all variables of a container as a zod shape; the engine that `env` chooses decides which are required. */
export function containerShape(env: NodeJS.ProcessEnv) {
  return { ...engineVariables(env), ...workerVariables, ...own, ENGINE_KEEP_WEIGHTS: keepWeights(env) };
}

function keepWeights(env: NodeJS.ProcessEnv) {
  const engine = describeEngine(chosenEngine(env));
  return variable
    .flag()
    .default(false)
    .refine((isOn) => !isOn || engine.keepsWeights, {
      error: `${engine.title} cannot keep its weights: leave it out`,
    })
    .refine((isOn) => !isOn || !env.ENGINE_TURNS, {
      error: 'an engine that shares its GPU puts its weights aside, which kept ones cannot be: leave it out',
    });
}

/**
 * Reads all variables of a container: the supervisor's, the engine's and the worker's.
 * @param others variables of the caller's own, to be checked in the same list
 * @throws UserError naming every one that is missing or wrong
 */
export function readContainerVariables(env: NodeJS.ProcessEnv, others: z.ZodRawShape = {}) {
  const schema = withCrossChecks(z.object({ ...others, ...containerShape(env) }));
  return readEnvironment(schema, env);
}
