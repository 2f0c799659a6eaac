import { ensureBrowser } from '../../scripts/browser/setup.ts';

/** Installs the browser before the first file, where its progress shows at once and no hook's limit runs. */
export default async function setup(): Promise<void> {
  await ensureBrowser();
}
