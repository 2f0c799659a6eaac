import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { buildImage } from '../../scripts/release/images.ts';
import { type Bom, packageBom } from '../../scripts/release/sbom.ts';
import { stateFolder, tearDown } from '../support/road.ts';
import { docker, tried } from './containers.ts';

/** An image of a release: `npm run release -- --images` without the rest, which test/release has. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const imageName = 'worker-vllm-test-release';
const built = `${imageName}-queue:9.9.9`;

afterAll(async () => {
  await tried('image', 'rm', '--force', built);
  await tearDown();
});

it('is built, saved under its digest, and listed with the packages of its bundles', async () => {
  const into = stateFolder();
  const more = [
    '--quiet',
    '--network',
    'host',
    '--build-arg',
    `NODE_VERSION=${process.env.TEST_NODE_VERSION}`,
  ];
  const packages = packageBom(ROOT, 0);
  const facts = {
    root: ROOT,
    imageName,
    version: '9.9.9',
    commit: 'c0ffee',
    into,
    packageBom: packages,
    more,
  };
  const { name, id } = await buildImage('queue', facts);
  expect(name).toBe(built);

  const archive = join(into, 'images/worker-vllm-queue-9.9.9.tar');
  const configuration = execFileSync(
    'sh',
    ['-c', `tar -xOf "$0" "$1" | sha256sum`, archive, fileOf(archive)],
    {
      encoding: 'utf8',
    },
  );
  expect(id).toBe(`sha256:${configuration.slice(0, 64)}`);
  await docker('image', 'rm', '--force', built);
  await docker('load', '--input', archive);
  const labels = JSON.parse(await docker('inspect', '--format', '{{json .Config.Labels}}', built));
  expect(labels).toMatchObject({
    'org.opencontainers.image.version': '9.9.9',
    'org.opencontainers.image.revision': 'c0ffee',
  });

  const bom: Bom = JSON.parse(
    readFileSync(join(into, 'sbom/worker-vllm-queue-9.9.9.image.cdx.json'), 'utf8'),
  );
  expect(bom.metadata.component).toMatchObject({ name: `${imageName}-queue`, version: '9.9.9' });
  const names = bom.components.map((component) => component.name);
  // The list has packages of the image, files that Syft knows, and packages within the bundles.
  for (const listed of ['worker-vllm', 'node', 'hono']) expect(names).toContain(listed);
});

/** The file of an archive that is the configuration of its image. */
function fileOf(archive: string): string {
  return JSON.parse(execFileSync('tar', ['-xOf', archive, 'manifest.json'], { encoding: 'utf8' }))[0].Config;
}
