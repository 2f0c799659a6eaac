import type { EngineName } from '../../protocol/index.ts';
import type { EngineDescription } from './description.ts';
import { external } from './external.ts';
import { fastdeploy } from './fastdeploy.ts';
import { llamaCpp } from './llama-cpp.ts';
import { sglang } from './sglang.ts';
import { simulator } from './simulator.ts';
import { vllm } from './vllm.ts';

const DESCRIPTIONS: Record<EngineName, EngineDescription> = {
  vllm,
  sglang,
  'llama-cpp': llamaCpp,
  fastdeploy,
  simulator,
  external,
};

/** Returns everything that is particular to one engine. */
export function describeEngine(name: EngineName): EngineDescription {
  return DESCRIPTIONS[name];
}
