import type { EngineName } from '../kinds/description.ts';
import type { DefaultArguments } from './flag-arguments.ts';

const FLAG = '--kv-transfer-config';

/** What vLLM is to do with blocks that it cannot read: compute them. By itself it fails the request. */
const CONNECTOR = {
  kv_connector: 'NixlConnector',
  kv_role: 'kv_both',
  kv_load_failure_policy: 'recompute',
};

/** Of an engine for which another one prefills: it can read that one's cache. */
export function defaultPrefill(engine: EngineName, env: NodeJS.ProcessEnv): DefaultArguments {
  if (!env.ENGINE_PREFILL_URL?.trim() || engine === 'fastdeploy') return { arguments: [], env: {} };
  const words = [FLAG, JSON.stringify(CONNECTOR)];
  return { arguments: [{ words, flag: FLAG, from: 'ENGINE_PREFILL_URL' }], env: {} };
}
