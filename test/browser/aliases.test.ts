import { afterAll, expect, it } from 'vitest';
import { accessibilityFaults } from '../support/browser.ts';
import { readyWorker, startQueue, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

afterAll(tearDown);

it('shows the models of an alias and its mirror side by side', async () => {
  const { url } = await startQueue();
  const post = (path: string, body: object) =>
    fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify(body) });
  const aliases = {
    'gpt-4o': {
      to: [{ model: 'big' }],
      then: ['small'],
      on: ['no_worker'],
      mirror: { model: 'new', share: 1 },
    },
  };
  for (const model of ['small', 'new'])
    await readyWorker(url, `w-${model}`, {
      engineArgs: `--served-model-name ${model}`,
      env: { CASOLA_CONFIG_ID: `pool-${model}`, CASOLA_MAX_JOBS: '8' },
    });
  expect((await post('/api/fleet/spec', { spec: { providers: {}, pools: {}, aliases } })).status).toBe(200);
  const body = { model: 'gpt-4o', prompt: 'a', max_tokens: 4, stream: true };
  for (let index = 0; index < 4; index++) await (await post('/v1/completions', body)).text();

  const { page, faults, close } = await openPage();
  await page.goto(`${url}/queue`);
  const table = page.getByRole('table', { name: 'Models of gpt-4o' });
  const row = (id: string) => table.locator(`tr[data-id="${id}"]`);
  await row('small').getByText('4 fell back to it').waitFor();
  await row('small').getByText('100 %').first().waitFor();
  // A model that gets nothing is seen, and what copies do stands beside it.
  await row('big').waitFor();
  await row('mirror new').getByText('copies').first().waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  expect(faults).toEqual([]);
  await close();
});
