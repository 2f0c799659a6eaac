import type { DefaultArguments } from './flag-arguments.ts';

/** Of an engine that shares its GPU (`worker-vllm swap`): it can put its weights aside, and has routes for it. */
export function defaultSleep(env: NodeJS.ProcessEnv): DefaultArguments {
  if (!env.ENGINE_TURNS) return { arguments: [], env: {} };
  return {
    arguments: [{ words: ['--enable-sleep-mode'], flag: '--enable-sleep-mode', from: 'worker-vllm swap' }],
    // Routes without a token: nobody but the worker reaches the engine's address.
    env: { VLLM_SERVER_DEV_MODE: '1' },
  };
}
