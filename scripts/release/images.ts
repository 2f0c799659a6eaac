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
  version: string;
  commit: string;
  /** The release's folder. */
  into: string;
  /** The bill of materials of the package: its programs are in the images too. */
  packageBom: Bom;
  /** More arguments for `docker build`. */
  more: string[];
}

/**
 * Builds an image, saves it as `docker load` takes it in `images/`, and lists what is in it in `sbom/`.
 * @throws UserError where no daemon answers, or a build fails, whose output has been shown
 */
export async function buildImage(
  kind: ImageKind,
  { root, version, commit, into, packageBom, more }: ImageBuild,
): Promise<Image> {
  const { suffix, file } = IMAGES[kind];
  const name = `${imageName()}${suffix}`;
  const tag = `${name}:${version}`;
  const built = spawnSync(
    'docker',
    [
      ...['build', '--platform', 'linux/amd64', '--file', file, '--tag', tag],
      ...['--build-arg', `VERSION=${version}`, '--build-arg', `REVISION=${commit}`],
      ...more,
      '.',
    ],
    { cwd: root, env: { ...process.env, DOCKER_BUILDKIT: '1' }, stdio: ['ignore', 2, 2] },
  );
  if (built.status !== 0) throw new UserError(`docker build of ${file} failed, as shown above.`);
  for (const folder of ['images', 'sbom']) mkdirSync(join(into, folder), { recursive: true });
  const archive = join(into, 'images', `worker-vllm${suffix}-${version}.tar`);
  execFileSync('docker', ['save', '--output', archive, tag]);
  await listContents(
    root,
    archive,
    join(into, 'sbom', `worker-vllm${suffix}-${version}.image.cdx.json`),
    packageBom,
  );
  return { name: tag, id: idOf(archive) };
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

/** The worker's image without a tag, as build.sh and docker-bake.hcl name it. */
export function imageName(): string {
  return process.env.IMAGE_NAME || 'ghcr.io/worker-vllm/worker-vllm';
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
async function listContents(root: string, archive: string, path: string, packageBom: Bom): Promise<void> {
  const syft = join(await releaseTools(root, 'requirements-images.txt'), 'syft');
  execFileSync(
    syft,
    ['scan', `docker-archive:${archive}`, '--quiet', '--output', `cyclonedx-json@1.5=${path}`],
    {
      env: { ...process.env, SYFT_CHECK_FOR_APP_UPDATE: 'false' },
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  );
  const bom: Bom = JSON.parse(readFileSync(path, 'utf8'));
  const own = packageBom.components.filter(({ scope }) => scope === 'required');
  bom.components = [...(bom.components ?? []), ...own];
  writeFileSync(path, `${JSON.stringify(bom, null, 2)}\n`);
}
