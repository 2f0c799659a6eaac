import { listNames } from '../protocol/index.ts';
import type { ConfigChoice, KnownModel } from './rpc.ts';

/**
 * The config that last served a model. A config's own name stands for its models; "default" and no name mean the
 * only config there is.
 * @param known the most recently served first
 */
export function chooseConfig(
  known: readonly Pick<KnownModel, 'id' | 'config_id'>[],
  model: string | null,
): ConfigChoice {
  const isNamed = model !== null && model !== 'default';
  const found = isNamed ? known.find(({ id, config_id }) => id === model || config_id === model) : undefined;
  if (found) return { kind: 'config', config_id: found.config_id };
  const configs = [...new Set(known.map(({ config_id }) => config_id))];
  if (!isNamed && configs.length === 1) return { kind: 'config', config_id: configs[0]! };
  return {
    kind: isNamed || configs.length === 0 ? 'unknown' : 'ambiguous',
    models: listNames(known.map(({ id }) => id)),
    configs: listNames(configs),
  };
}
