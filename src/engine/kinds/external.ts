import type { EngineDescription } from './description.ts';
import { vllm } from './vllm.ts';

/** Any server with the OpenAI API that runs already (vLLM, Ollama, llama.cpp): attached to, never stopped. */
export const external: EngineDescription = {
  ...vllm,
  name: 'external',
  title: 'an engine that runs already',
  command: null,
  usesGpu: false,
  // It has its memory for itself.
  canSleep: false,
  // Whether it does is not known.
  goesOnFromIds: false,
  installHelp: null,
  // Ollama has no /health.
  healthPaths: ['/health', '/v1/models'],
  // It does not tell. So many do no harm to a server that takes fewer.
  sideBySide: { flag: null, usual: 8 },
};
