import { programArguments } from '../../process/package.ts';
import type { EngineDescription } from './description.ts';
import { serveArguments, vllm } from './vllm.ts';

/** The project's own stand-in for vLLM, for machines without one: same flags, logs, routes and metrics. */
export const simulator: EngineDescription = {
  ...vllm,
  name: 'simulator',
  title: 'the simulator',
  command: (settings) => ({
    program: process.execPath,
    args: [...programArguments('simulator'), ...serveArguments(settings)],
  }),
  usesGpu: false,
  keepsWeights: false,
  tracingFlag: undefined,
  installHelp: null,
};
