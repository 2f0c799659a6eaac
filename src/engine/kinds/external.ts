import type { EngineDescription } from './description.ts';
import { vllm } from './vllm.ts';

/**
 * Any server with the OpenAI API that is already running (vLLM, Ollama, llama.cpp): the worker attaches to it, and
 * never stops it.
 */
export const external: EngineDescription = {
  ...vllm,
  name: 'external',
  title: 'an engine that runs already',
  command: null,
  usesGpu: false,
  // The server does not share its memory.
  canSleep: false,
  keepsWeights: false,
  // Nobody knows whether the server continues from token ids.
  goesOnFromIds: false,
  installHelp: null,
  // Ollama has no /health.
  healthPaths: ['/health', '/v1/models'],
  // The server does not report its number. This many requests do no harm to a server that runs fewer.
  sideBySide: { flag: null, usual: 8 },
};
