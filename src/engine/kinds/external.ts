import type { EngineDescription } from './description.ts';
import { vllm } from './vllm.ts';

/**
 * Any server with the OpenAI API that runs already (vLLM, Ollama, llama.cpp): the worker attaches to it, and never
 * stops it.
 */
export const external: EngineDescription = {
  ...vllm,
  name: 'external',
  title: 'an engine that runs already',
  command: null,
  usesGpu: false,
  // The server has its memory for itself.
  canSleep: false,
  // It is not known whether the server continues from token ids.
  goesOnFromIds: false,
  installHelp: null,
  // Ollama has no /health.
  healthPaths: ['/health', '/v1/models'],
  // The server does not report its number. So many requests do no harm to a server that takes fewer.
  sideBySide: { flag: null, usual: 8 },
};
