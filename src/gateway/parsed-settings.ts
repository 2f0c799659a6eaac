import { inferenceRoutes, type RouteList } from '../protocol/index.ts';
import { parseModelAliases } from '../settings/queue-settings.ts';
import type { Env } from './env.ts';

/** The names under which callers may ask for models: `QUEUE_MODEL_ALIASES`. The engine is asked for its own name. */
export interface ModelAliases {
  /** Models by alias, in the order in which the aliases are written. */
  readonly models: ReadonlyMap<string, string>;
  /** Returns the model that a name stands for: the name itself where it is no alias. */
  resolve<Name extends string | null>(model: Name): Name | string;
}

let parsed: { text: string; aliases: ModelAliases } | null = null;

/** @throws Error for a text that the queue's process would not have started with */
export function modelAliases(text: string | undefined): ModelAliases {
  const given = text ?? '';
  if (parsed?.text === given) return parsed.aliases;
  const models = parseModelAliases(given);
  const aliases: ModelAliases = {
    models,
    resolve: (model) => (model === null ? model : (models.get(model) ?? model)),
  };
  parsed = { text: given, aliases };
  return aliases;
}

/** The list of routes, parsed once for each text that describes it. */
let routes: { text: string; list: RouteList } | null = null;

/** Returns the routes of engines that callers may use. */
export function inferenceRoutesOf({ INFERENCE_ROUTES: text = '' }: Env): RouteList {
  if (routes?.text !== text) routes = { text, list: inferenceRoutes(text) };
  return routes.list;
}
