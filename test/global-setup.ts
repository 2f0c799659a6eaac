import { freshPrograms } from '../scripts/programs.ts';

/** Builds what roads run before the first file, so that no test's limit runs meanwhile. */
export default async function setup(): Promise<void> {
  await freshPrograms();
}
