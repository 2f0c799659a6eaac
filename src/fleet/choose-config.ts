import { listNames } from '../protocol/index.ts';

/** A model and the config whose workers serve it. */
export interface ServedModel {
  id: string;
  config_id: string;
}

/** Which config a request is for. Names are as an error message lists them. */
export type ConfigChoice =
  | { kind: 'config'; config_id: string }
  /** No model was named and there are several configs. */
  | { kind: 'ambiguous'; models: string; configs: string }
  /** Nobody serves the model; the lists are empty when nobody serves anything. */
  | { kind: 'unknown'; models: string; configs: string };

/**
 * The same rule for models that connected workers serve (the queue) and for models that are only known (the
 * fleet object). A config's own name stands for its models; "default" and no name mean the only config there is.
 * @param served the entry that goes first where several configs serve a model comes first
 */
export function chooseConfig(served: readonly ServedModel[], model: string | null): ConfigChoice {
  const isNamed = model !== null && model !== 'default';
  const found = isNamed ? served.find(({ id, config_id }) => id === model || config_id === model) : undefined;
  if (found) return { kind: 'config', config_id: found.config_id };
  const configs = [...new Set(served.map(({ config_id }) => config_id))];
  if (!isNamed && configs.length === 1) return { kind: 'config', config_id: configs[0]! };
  return {
    kind: isNamed || configs.length === 0 ? 'unknown' : 'ambiguous',
    models: listNames(served.map(({ id }) => id)),
    configs: listNames(configs),
  };
}
