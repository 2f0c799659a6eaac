import type { ConfigChoice } from '../../fleet/rpc.ts';
import { listNames } from '../../protocol/index.ts';
import type { Core } from './state.ts';
import { servesModel } from './worker.ts';

/**
 * The config that a request for this model is for, by the workers that are connected or expected back any moment, and
 * by the configs that the scheduler starts workers for. "default" and no name mean the only config there is. They go
 * before all that is only known: where none of these has the model, the fleet object knows which config did.
 * @param model null: the request names none
 * @returns null where the fleet object is to be asked
 */
export function liveConfig(core: Core, model: string | null): ConfigChoice | null {
  const workers = core.workers.present(core.now());
  // One may be called "default" itself.
  const named =
    model === null
      ? null
      : (workers.find((worker) => servesModel(worker, model))?.session ?? core.starts.named(model));
  if (named) return { kind: 'config', config_id: named.config_id };
  if (isNamed(model)) return null;
  const starts = core.starts.all();
  const configs = [
    ...new Set([...workers.map(({ session }) => session), ...starts].map((one) => one.config_id)),
  ];
  if (configs.length <= 1) return configs[0] === undefined ? null : { kind: 'config', config_id: configs[0] };
  const models = [
    ...workers.flatMap(({ models, session }) => (models.length > 0 ? models : [session.config_id])),
    ...starts.flatMap(({ names, config_id }) => (names.length > 0 ? names : [config_id])),
  ];
  return { kind: 'ambiguous', models: listNames(models), configs: listNames(configs) };
}

/** Whether a model of this name is asked for, rather than the only one there is. */
export function isNamed(model: string | null): model is string {
  return model !== null && model !== 'default';
}
