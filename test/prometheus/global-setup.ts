import { ensureAlertmanager } from '../../scripts/alertmanager/setup.ts';
import { ensurePromtool } from '../../scripts/promtool/setup.ts';

/** Unpacks promtool and Alertmanager before the first file, where the progress shows at once. */
export default async function setup(): Promise<void> {
  await ensurePromtool();
  await ensureAlertmanager();
}
