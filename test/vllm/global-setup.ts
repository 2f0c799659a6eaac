import { ensureVllm } from '../../scripts/vllm/setup.ts';

/** Installs vLLM before the first file, where its progress shows at once and no hook's limit runs. */
export default async function setup(): Promise<void> {
  await ensureVllm();
}
