import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { InvalidArgumentError } from 'commander';
import { OLDEST_VERSION, STATE_VERSION } from '../src/durable/ports.ts';
import { UserError } from '../src/process/index.ts';
import { commandLine } from './command-line.ts';
import { packTarball } from './pack.ts';
import { readSource, type Source } from './release/checks.ts';
import { writeChecksums } from './release/checksums.ts';
import { buildImage, IMAGE_KINDS, type Image, type ImageKind, requireDocker } from './release/images.ts';
import { releaseNotes } from './release/notes.ts';
import { buildPython, packChart } from './release/packages.ts';
import { publishing } from './release/publishing.ts';
import { packageBom } from './release/sbom.ts';
import { tryPackage } from './release/try-package.ts';

/** `npm run release`: makes all files of a release of this commit, in `release/`. docs/releasing.md describes them. */

const root = join(import.meta.dirname, '..');
const folder = join(root, 'release');
/** As build.sh and deploy/docker-bake.hcl name the worker's image. */
const imageName = process.env.IMAGE_NAME || 'ghcr.io/worker-vllm/worker-vllm';

const command = commandLine('npm run release --', 'makes all files of a release of this commit, in release/')
  .argument('[version]', 'the version that package.json must have; left out: any')
  .option('--images [kinds]', `build images too, all or these: ${IMAGE_KINDS.join(',')}`, imageKinds)
  .option('--docker-build <arguments>', 'more arguments for "docker build", such as "--network host"', '')
  .option('--checked', '"npm run check" has passed on this commit already')
  .parse();
const [version = null] = command.args;
const options = command.opts<{ images?: true | ImageKind[]; dockerBuild: string; checked?: true }>();
const kinds = options.images === true ? IMAGE_KINDS : (options.images ?? []);

async function release(): Promise<void> {
  const source = readSource(root, version);
  if (kinds.length > 0) requireDocker();
  if (!options.checked) check();
  rmSync(folder, { recursive: true, force: true });
  for (const part of ['npm', 'python', 'helm', 'sbom']) mkdirSync(join(folder, part), { recursive: true });

  say('packing the npm package');
  const tarball = packTarball(join(folder, 'npm')).path;
  say('installing it in an empty folder, and sending it a request');
  await tryPackage(tarball, source.version);
  say("building the client for Python, and packing Helm's chart");
  await buildPython(root, join(folder, 'python'), source.committedAt);
  packChart(root, join(folder, 'helm'), source.version);
  say('listing what the package is made of');
  const bom = packageBom(root, source.committedAt);
  writeJson(join(folder, 'sbom', `${basename(tarball, '.tgz')}.npm.cdx.json`), bom);
  const images: Image[] = [];
  for (const kind of kinds) {
    say(`building the image of the ${kind}`);
    const more = options.dockerBuild.split(' ').filter(Boolean);
    images.push(await buildImage(kind, { ...source, root, imageName, into: folder, packageBom: bom, more }));
  }
  if (images.length > 0) writeJson(join(folder, 'images/digests.json'), images);
  writeNotes(source, images);
  report(source, images, await writeChecksums(folder));
}

function check(): void {
  say('npm run check');
  const { status } = spawnSync(process.execPath, [join(root, 'scripts/check.ts')], {
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) throw new UserError('"npm run check" failed, as shown above: mend that, and commit.');
}

function writeNotes({ version }: Source, images: Image[]): void {
  const notes = releaseNotes({
    version,
    changelog: readFileSync(join(root, 'CHANGELOG.md'), 'utf8'),
    upgrading: readFileSync(join(root, 'docs/upgrading.md'), 'utf8'),
    state: { number: STATE_VERSION, oldest: OLDEST_VERSION },
    images,
  });
  writeFileSync(join(folder, 'NOTES.md'), notes);
}

function report(source: Source, images: Image[], sizes: Record<string, number>): void {
  const rows = Object.entries(sizes).map(([path, bytes]) => `${kilobytes(bytes).padStart(12)}  ${path}`);
  console.log(`\nrelease/ is version ${source.version} of commit ${source.commit}:\n\n${rows.join('\n')}`);
  if (images.length === 0) {
    console.log('\nImages are left out: "npm run release -- --images" builds them where a Docker daemon is.');
  }
  console.log(`\n${publishing(source, images, Object.keys(sizes), imageName)}`);
}

function kilobytes(bytes: number): string {
  return `${Math.ceil(bytes / 1000).toLocaleString('en-US')} kB`;
}

function writeJson(path: string, value: unknown): void {
  writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`);
}

function say(text: string): void {
  console.error(`release: ${text} ...`);
}

function imageKinds(text: string): ImageKind[] {
  const named = text.split(',');
  const unknown = named.find((kind) => !IMAGE_KINDS.some((known) => known === kind));
  if (unknown !== undefined) throw new InvalidArgumentError(`There is no image "${unknown}".`);
  return named as ImageKind[];
}

try {
  await release();
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  console.error(error.message);
  process.exitCode = error.exitCode;
}
