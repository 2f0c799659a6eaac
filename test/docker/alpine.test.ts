import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { installPublished } from '../support/published.ts';
import { tried } from './containers.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const IMAGE = `node:${process.env.TEST_NODE_VERSION}-alpine`;

const folder = mkdtempSync(join(tmpdir(), 'wv-alpine-'));
const app = join(folder, 'app');

beforeAll(async () => {
  mkdirSync(app);
  installPublished(app);
  copyFileSync(join(REPOSITORY, 'scripts/walk.ts'), join(app, 'walk.ts'));
  chmodSync(folder, 0o755);
  const isThere = (await tried('image', 'inspect', IMAGE)).code === 0;
  if (isThere || (await tried('pull', '--quiet', IMAGE)).code === 0) return;
  execFileSync(join(REPOSITORY, 'scripts/docker/alpine.sh'), [join(folder, 'base')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('the package runs on musl and busybox with Node alone, also after it was killed', async () => {
  const mounted = ['--volume', `${app}:/app:ro`];
  const command = ['node', '/app/walk.ts', '/app/node_modules/.bin/worker-vllm'];
  const walked = await tried('run', '--rm', ...mounted, IMAGE, ...command);
  expect(walked, walked.stdout + walked.stderr).toMatchObject({ code: 0 });
  expect(walked.stdout).toContain('All steps passed.');
});
