/** The engines that a worker may run, as `ENGINE` and a pool of the fleet file name them. */
export const ENGINE_NAMES = ['vllm', 'sglang', 'llama-cpp', 'fastdeploy', 'simulator', 'external'] as const;
export type EngineName = (typeof ENGINE_NAMES)[number];
