import { afterAll, beforeAll, expect, it } from 'vitest';
import { type DemoLaunches, startDemoLaunches } from '../../scripts/demo/launches.ts';
import { accessibilityFaults, type OpenPage } from '../support/browser.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { openPage } from './page.ts';

/** A fleet that the real scheduler starts and ends, on machines that are made up, as an operator sees it. */
let open: OpenPage;
let demo: DemoLaunches;

const road = startTestQueue();
beforeAll(async () => {
  demo = await startDemoLaunches({ url: road.url, token: undefined }, { startSeconds: 3 });
  open = await openPage();
});
afterAll(async () => {
  await open.close();
  await demo.stop();
});

it('shows a launch from the decision to its end, what it costs, and lets an admin hold it', async () => {
  const { page, faults } = open;
  await page.goto(road.url);
  // Both at once: what needs attention may come above them at any time.
  const room = () =>
    page.evaluate(`(() => {
      const topOf = (id) => document.getElementById(id).getBoundingClientRect().top;
      return topOf('fleet-title') - topOf('scaling-title');
    })()`);
  await page.getByRole('heading', { name: 'Scaling' }).waitFor();
  const atFirst = await room();
  const launches = page.getByRole('table', { name: 'Launches' });
  await launches.getByText('gemma-27b').first().waitFor();
  await launches.getByText('Loading').or(launches.getByText('Ready')).first().waitFor();
  const scaling = page.getByRole('table', { name: 'Scaling' });
  expect(await accessibilityFaults(page)).toEqual([]);
  await launches.getByText('takes jobs').first().waitFor();
  // The load calls for more than one, and none pushes what stands below.
  await launches.getByRole('row').nth(2).waitFor();
  expect(await room()).toBe(atFirst);

  await scaling.getByRole('button', { name: 'Change gemma-27b' }).click();
  const dialog = page.getByRole('dialog', { name: 'Change gemma-27b' });
  await dialog.getByRole('button', { name: 'Pause' }).click();
  await dialog.getByRole('button', { name: 'Pause now' }).click();
  await dialog.getByRole('button', { name: 'Close' }).click();
  await scaling.getByText('Paused by hand').waitFor();
  await scaling.getByRole('button', { name: 'Change gemma-27b' }).click();
  expect(await accessibilityFaults(page)).toEqual([]);
  await dialog.getByRole('button', { name: 'Drain all' }).click();
  await dialog.getByRole('button', { name: 'Drain all now' }).click();
  await dialog.getByRole('button', { name: 'Close' }).click();
  // A worker without a job is soon drained, and ended.
  await launches
    .getByText(/Draining|Ending|Ended/)
    .first()
    .waitFor();

  await page.getByRole('link', { name: 'Spend' }).click();
  const ended = page.getByRole('table', { name: 'Newest launches' }).getByText('Ended');
  await ended.first().waitFor();
  await page.getByRole('table', { name: 'Spend by pool' }).getByText('$', { exact: false }).first().waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  expect(faults).toEqual([]);
});
