import { afterAll, beforeAll, expect, it } from 'vitest';
import { type DemoLaunches, startDemoLaunches } from '../../scripts/demo/launches.ts';
import { accessibilityFaults, type OpenPage } from '../support/browser.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { openPage } from './page.ts';

/** A pool whose image changes, to one that serves and to one that does not start, as an operator sees it. */
/** Short answers, so that a version soon has enough of them to be proved. */
const LOAD = { stored: 6, callers: 2, maxTokens: 30 };
let open: OpenPage;
let demo: DemoLaunches;

const road = startTestQueue();
beforeAll(async () => {
  demo = await startDemoLaunches({ url: road.url, token: undefined }, { startSeconds: 2, load: LOAD });
  open = await openPage();
});
afterAll(async () => {
  await open.close();
  await demo.stop();
});

it('shows versions side by side, lets an admin hold a rollout, and says why a version was stopped', {
  timeout: 600_000,
}, async () => {
  const { page, faults } = open;
  page.setDefaultTimeout(240_000);
  await page.goto(`${road.url}/queue?config_id=gemma-27b`);
  const panel = page.getByRole('article', { name: 'gemma-27b' });
  await panel.getByText('workers ready').waitFor();
  // At least one of the pool's workers, however many the load has made the scheduler start by then.
  await panel
    .getByText(/^[1-9]\d*\/\d+$/)
    .first()
    .waitFor();
  // One version is nothing to compare.
  expect(await panel.getByRole('heading', { name: 'Versions' }).count()).toBe(0);

  await demo.roll();
  const versions = panel.getByRole('table', { name: 'Versions of gemma-27b' });
  await versions.getByText('being replaced').waitFor();
  await versions.getByText('image registry.example/worker-vllm:1.5').waitFor();
  await panel.getByText('Rolling out').waitFor();

  // It is held before it is over; what takes a busy machine seconds is done while it stands still.
  await panel.getByRole('button', { name: 'Pause the rollout of gemma-27b' }).click();
  const dialog = page.getByRole('dialog', { name: 'Change gemma-27b' });
  await dialog.getByText('would be held').waitFor();
  await dialog.getByRole('button', { name: 'Pause now' }).click();
  await dialog.getByRole('button', { name: 'Close' }).click();
  await panel.getByText('Rollouts paused').waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await panel.getByRole('button', { name: 'Resume the rollout of gemma-27b' }).click();
  await dialog.getByRole('button', { name: 'Resume now' }).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await dialog.getByRole('button', { name: 'Resume now' }).click();
  await dialog.getByRole('button', { name: 'Close' }).click();
  // Once all have the new version, the old one is kept.
  await versions.getByText('kept to go back to').waitFor();

  // A pause outlives the rollout, and is seen.
  await panel.getByText('Rolling out').waitFor({ state: 'detached' });
  await fetch(`${road.url}/api/fleet/pools/gemma-27b/roll`, { method: 'POST', body: '{"action": "pause"}' });
  await panel.getByText('A change of the pool replaces no worker').waitFor();
  await panel.getByRole('button', { name: 'Resume the rollout of gemma-27b' }).click();
  await dialog.getByRole('button', { name: 'Resume now' }).click();
  await panel.getByText('Rollouts paused').waitFor({ state: 'detached' });
  // The buttons have gone with the pause; what was done can still be read.
  await dialog.getByRole('button', { name: 'Close' }).click();

  await demo.roll();
  await panel.getByText('Rollout stopped').waitFor();
  await panel.getByText(/Version .* was stopped: /).waitFor();
  await panel.getByText('unknown flag --enable-chunked-prefil').first().waitFor();
  const attention = page.getByRole('region', { name: 'Needs attention' });
  await attention
    .getByText(/was stopped/)
    .first()
    .waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  expect(faults).toEqual([]);
});
