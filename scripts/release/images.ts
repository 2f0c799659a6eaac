import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { releaseTools } from './packages.ts';
import type { Bom } from './sbom.ts';

/** The images of a release, by the end of their names, with their Dockerfiles. */
const IMAGES = {
  queue: { suffix: '-queue', file: 'deploy/Dockerfile.queue' },
  worker: { suffix: '', file: 'Dockerfile' },
} as const;

export type ImageKind = keyof typeof IMAGES;
export const IMAGE_KINDS = Object.keys(IMAGES) as ImageKind[];

/** An image that was built. */
export interface Image {
  /** With the version as its tag. */
  name: string;
  /** The digest of its configuration, which names the layers: the same in each registry and after each `docker load`. */
  id: string;
}

export interface ImageBuild {
  root: string;
  /** The name of the worker's image, without a tag. */
  imageName: string;
  version: string;
  commit: string;
  /** The release's folder. */
  into: string;
  /** The bill of materials of the package: its programs are in the images too. */
  packageBom: Bom;
  /** More arguments for `docker build`. */
  more: readonly string[];
}

/**
 * Builds an image, saves it as `docker load` takes it in `images/`, and lists what is in it in `sbom/`.
 * @throws UserError where a build fails, whose output has been shown
 */
export async function buildImage(kind: ImageKind, build: ImageBuild): Promise<Image> {
  const { root, imageName, version, commit, into, more } = build;
  const { suffix, file } = IMAGES[kind];
  const name = `${imageName}${suffix}:${version}`;
  const { status } = spawnSync(
    'docker',
    [
      ...['build', '--platform', 'linux/amd64', '--file', file, '--tag', name],
      ...['--build-arg', `VERSION=${version}`, '--build-arg', `REVISION=${commit}`],
      ...more,
      '.',
    ],
    { cwd: root, env: { ...process.env, DOCKER_BUILDKIT: '1' }, stdio: ['ignore', 2, 2] },
  );
  if (status !== 0) throw new UserError(`docker build of ${file} failed, as shown above.`);
  for (const folder of ['images', 'sbom']) mkdirSync(join(into, folder), { recursive: true });
  const archive = join(into, 'images', `worker-vllm${suffix}-${version}.tar`);
  execFileSync('docker', ['save', '--output', archive, name]);
  const list = join(into, 'sbom', `worker-vllm${suffix}-${version}.image.cdx.json`);
  await listContents(archive, list, { ...build, imageName: `${imageName}${suffix}` });
  return { name, id: idOf(archive) };
}

/** @throws UserError where no daemon answers */
export function requireDocker(): void {
  const { error, status } = spawnSync('docker', ['info'], { stdio: 'ignore' });
  if (error || status !== 0) {
    throw new UserError(
      'No Docker daemon answers "docker info": start one or set DOCKER_HOST, or make the release without --images.',
    );
  }
}

/** An archive names the configuration by its digest, in one of two forms by Docker's version. */
function idOf(archive: string): string {
  const manifest = execFileSync('tar', ['-xOf', archive, 'manifest.json'], { encoding: 'utf8' });
  return `sha256:${/[0-9a-f]{64}/.exec(JSON.parse(manifest)[0].Config)![0]}`;
}

/**
 * Syft finds the packages of the system, of Python and of npm. It does not see what our bundles are made of, which is
 * added.
 */
async function listContents(archive: string, path: string, build: ImageBuild): Promise<void> {
  const syft = join(await releaseTools(build.root, 'requirements-images.txt'), 'syft');
  const named = ['--source-name', build.imageName, '--source-version', build.version];
  const form = `cyclonedx-json@1.5=${path}`;
  execFileSync(syft, ['scan', `docker-archive:${archive}`, '--quiet', ...named, '--output', form], {
    env: { ...process.env, SYFT_CHECK_FOR_APP_UPDATE: 'false' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const bom: Bom = JSON.parse(readFileSync(path, 'utf8'));
  const bundled = build.packageBom.components.filter(({ scope }) => scope === 'required');
  bom.components = [...(bom.components ?? []), ...bundled];
  writeFileSync(path, `${JSON.stringify(bom, null, 2)}\n`);
}
