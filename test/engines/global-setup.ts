import { ensureLlama } from '../../scripts/engines/setup.ts';

/** Installs the engine before the first file, where its progress shows at once and no hook's limit runs. */
export default async function setup(): Promise<void> {
  await ensureLlama();
}
