import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, linkSync, lstatSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import {
  expand,
  type Instruction,
  isIgnored,
  parseDockerfile,
  readIgnoreRules,
  stageChain,
} from './dockerfile.ts';

/**
 * `node scripts/stage-image.ts Dockerfile FOLDER` lays out below FOLDER exactly the files that the Dockerfile's
 * COPY lines put into the image, without its base: what a container of it would find. Needs no Docker.
 *
 * Three of the Dockerfiles' own stages are understood, by name: `node` (this Node), `dependencies` (the packages that
 * its "npm ci" would install, taken from node_modules here) and `programs` (the bundles, built here).
 */

/** How the image would be run. */
export interface StagedImage {
  entrypoint: string[];
  command: string[];
  healthCheck: string[];
  env: Record<string, string>;
  /** As USER says; null: root. */
  user: string | null;
  workdir: string;
}

interface LockedPackage {
  dev?: boolean;
  optional?: boolean;
  devOptional?: boolean;
  hasInstallScript?: boolean;
}

const REPOSITORY = join(import.meta.dirname, '..');

/** @throws Error for an instruction that it does not understand */
export function stageImage(dockerfile: string, root: string, args: Record<string, string> = {}): StagedImage {
  const stages = parseDockerfile(readFileSync(join(REPOSITORY, dockerfile), 'utf8'), args);
  const image: StagedImage = {
    entrypoint: [],
    command: [],
    healthCheck: [],
    env: {},
    user: null,
    workdir: '/',
  };
  const variables: Record<string, string> = {};
  const copyFrom = {
    context: (source: string, target: string) => copyContext(source, join(root, target)),
    node: (_: string, target: string) => linkOrCopy(process.execPath, join(root, target)),
    dependencies: (_: string, target: string) => {
      const install = stages.find(({ name }) => name === 'dependencies')?.instructions ?? [];
      copyPackages(install, join(root, target));
    },
    programs: (_: string, target: string) => copyPrograms(join(root, target)),
  };
  const { base, instructions } = stageChain(stages);
  // Of the base, Node is all that is worth having here.
  if (base.startsWith('node:')) copyFrom.node('', 'usr/local/bin/node');
  for (const { keyword, text } of instructions) {
    switch (keyword) {
      case 'ENV':
        for (const [, name, value] of text.matchAll(/(\w+)=(\S+)/g)) image.env[name!] = value!;
        break;
      case 'WORKDIR':
        image.workdir = resolve(image.workdir, text);
        mkdirSync(join(root, image.workdir), { recursive: true });
        break;
      case 'USER':
        image.user = text;
        break;
      case 'ENTRYPOINT':
        image.entrypoint = JSON.parse(text);
        break;
      case 'CMD':
        image.command = JSON.parse(text);
        break;
      case 'HEALTHCHECK':
        image.healthCheck = JSON.parse(text.slice(text.indexOf('CMD') + 3));
        break;
      case 'COPY':
        runCopy(expand(text, variables), image.workdir, copyFrom);
        break;
      case 'ARG': {
        const [name, value = ''] = text.split('=');
        variables[name!] = args[name!] ?? value;
        break;
      }
      // They change the base, of which nothing is here, or describe the image.
      case 'RUN':
      case 'LABEL':
      case 'VOLUME':
      case 'EXPOSE':
        break;
      default:
        throw new Error(`${dockerfile}: ${keyword} is not understood`);
    }
  }
  return image;
}

type Copier = (source: string, target: string) => void;

function runCopy(text: string, workdir: string, copyFrom: Record<string, Copier>): void {
  const words = text.split(/\s+/);
  const from = words.find((word) => word.startsWith('--from='))?.slice('--from='.length) ?? 'context';
  const copier = copyFrom[from];
  if (!copier) throw new Error(`COPY --from=${from} is not understood`);
  const paths = words.filter((word) => !word.startsWith('--'));
  const target = paths.pop()!;
  for (const source of paths) {
    const into = target.endsWith('/') && !isFolder(source) ? join(target, basename(source)) : target;
    copier(source, resolve(workdir, into));
  }
}

function isFolder(source: string): boolean {
  const path = join(REPOSITORY, source);
  return existsSync(path) && lstatSync(path).isDirectory();
}

function copyContext(source: string, target: string): void {
  const rules = readIgnoreRules(readFileSync(join(REPOSITORY, '.dockerignore'), 'utf8'));
  const files = isFolder(source) ? filesOf(join(REPOSITORY, source)) : [''];
  const kept = files.filter((file) => !isIgnored(join(source, file), rules));
  if (kept.length === 0) throw new Error(`COPY ${source}: there is none, or .dockerignore leaves it out`);
  for (const file of kept) copyFile(join(REPOSITORY, source, file), join(target, file));
}

function copyPrograms(target: string): void {
  execFileSync(process.execPath, [join(REPOSITORY, 'scripts/programs.ts')]);
  const built = join(REPOSITORY, 'dist/programs');
  for (const file of filesOf(built)) copyFile(join(built, file), join(target, 'programs', file));
}

/** What `npm ci` with the flags of the stage would put there. */
function copyPackages(install: Instruction[], target: string): void {
  const flags = install.find(({ text }) => text.startsWith('npm ci'))?.text ?? '';
  const [withoutDev, withoutOptional] = [flags.includes('--omit=dev'), flags.includes('--omit=optional')];
  const lock = JSON.parse(readFileSync(join(REPOSITORY, 'package-lock.json'), 'utf8'));
  for (const [path, locked] of Object.entries<LockedPackage>(lock.packages)) {
    const isLeftOut =
      path === '' ||
      (locked.dev && withoutDev) ||
      (locked.optional && withoutOptional) ||
      (locked.devOptional && withoutDev && withoutOptional);
    // Packages for other systems are not installed.
    if (isLeftOut || !existsSync(join(REPOSITORY, path))) continue;
    const own = join(REPOSITORY, path);
    const leftOut = [join(own, 'node_modules')];
    // Their install scripts put programs there.
    if (locked.hasInstallScript && flags.includes('--ignore-scripts')) leftOut.push(join(own, 'bin'));
    const into = join(target, path.slice('node_modules/'.length));
    for (const file of filesOf(own, leftOut)) linkOrCopy(join(own, file), join(into, file));
  }
}

/** Every file below a folder, by its path within, in no folder that is left out. */
function filesOf(folder: string, leftOut: string[] = []): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (leftOut.includes(path)) return [];
    if (!entry.isDirectory()) return [entry.name];
    return filesOf(path, leftOut).map((file) => join(entry.name, file));
  });
}

function copyFile(source: string, target: string): void {
  mkdirSync(dirname(target), { recursive: true });
  copyFileSync(source, target);
}

/** Links what is large and never edited, where both lie on one disk. */
function linkOrCopy(source: string, target: string): void {
  mkdirSync(dirname(target), { recursive: true });
  try {
    linkSync(source, target);
  } catch {
    copyFileSync(source, target);
  }
}

if (import.meta.main) {
  const [dockerfile = 'Dockerfile', root] = process.argv.slice(2);
  if (!root) throw new Error('usage: node scripts/stage-image.ts Dockerfile FOLDER');
  console.log(JSON.stringify(stageImage(dockerfile, resolve(root)), null, 2));
}
