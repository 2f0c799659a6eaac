import { ensureClients } from '../../scripts/clients/setup.ts';

/** Installs the clients before the first file, where its progress shows at once and no hook's limit runs. */
export default async function setup(): Promise<void> {
  await ensureClients();
}
