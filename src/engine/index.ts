/** What differs between engines, and what they share: configuration, client, health, log reading. */
import type { EngineDescription, EngineName } from './description.ts';
import { external } from './external.ts';
import { fastdeploy } from './fastdeploy.ts';
import { simulator } from './simulator.ts';
import { vllm } from './vllm.ts';

export * from './canary.ts';
export * from './client.ts';
export * from './configuration.ts';
export * from './description.ts';
export { failureExitCode } from './failures.ts';
export * from './hang.ts';
export * from './health.ts';
export { type LineLevel, levelOf } from './log-phases.ts';
export * from './report.ts';
export * from './types.ts';

const DESCRIPTIONS: Record<EngineName, EngineDescription> = { vllm, fastdeploy, simulator, external };

/** All that is particular to one engine. */
export function describeEngine(name: EngineName): EngineDescription {
  return DESCRIPTIONS[name];
}
