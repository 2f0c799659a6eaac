import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { startProcess } from '../support/processes.ts';

const SETUP = fileURLToPath(new URL('../../scripts/browser/setup.ts', import.meta.url));
const PROGRAM = '/usr/lib/chromium/chromium-headless-shell';

async function setUp(env: NodeJS.ProcessEnv) {
  const setup = startProcess(process.execPath, [SETUP], { env: { ...process.env, ...env } });
  const { code } = await setup.exited;
  return { code, output: setup.output() };
}

it('is over at once where a browser renders', async () => {
  expect(await setUp({})).toEqual({ code: 0, output: '' });
});

it.skipIf(process.env.CHROMIUM)('calls no browser ready that starts and cannot render', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'chromium-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const alone = join(folder, 'chromium-headless-shell');
  // Without its ICU data, as where half of it was taken for installed.
  copyFileSync(PROGRAM, alone);
  expect(await setUp({ CHROMIUM: alone })).toMatchObject({
    code: 2,
    output: expect.stringMatching(/^CHROMIUM=\S+ shows no page: /),
  });
});
