import { ensurePromtool } from '../../scripts/promtool/setup.ts';

/** Unpacks promtool before the first file, where its progress shows at once; without it no test passes. */
export default async function setup(): Promise<void> {
  await ensurePromtool();
}
