import {
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import type { Plugin } from 'esbuild';
import { freshDashboard } from '../src/host/dashboard.ts';
import { areFresh, FINGERPRINT, FOLDER, fingerprint } from './fingerprint.js';

/**
 * This file lists what runs from a checkout, an image and the published package: each program as one file, with the
 * parts that programs share beside it, all in `dist/programs/`. `src/process/package.ts` knows the same names.
 */
const PROGRAMS = {
  cli: 'src/cli.ts',
  'queue-process': 'src/host/node/processes/main.ts',
  supervisor: 'src/supervisor/main.ts',
  worker: 'src/worker/main.ts',
  simulator: 'src/simulator/main.ts',
};

const ROOT = join(import.meta.dirname, '..');
/** A process may still load a part of the build that it was started from, ms. */
const KEPT_MS = 24 * 3600 * 1000;

/**
 * Builds the programs if they are missing or of other sources than these.
 * @param say tells the user of a build, which takes half a minute on a slow machine: before it, and when it is done
 */
export async function freshPrograms(say: (text: string) => void = () => {}): Promise<void> {
  if (areFresh()) return;
  const began = performance.now();
  say(
    'Building worker-vllm from its sources, as after each change of them: seconds, up to a minute on a slow machine …',
  );
  await buildPrograms();
  say(`Built in ${Math.ceil((performance.now() - began) / 1000)} s.`);
}

/**
 * Others may start from the folder at this moment, or build into it. So shared parts are named after what is in
 * them, files appear whole, and a program appears after all that it loads.
 * @param keptMs parts of earlier builds stay for so long
 */
export async function buildPrograms(keptMs = KEPT_MS): Promise<void> {
  const sources = fingerprint();
  mkdirSync(FOLDER, { recursive: true });
  const { outputFiles: files, metafile } = await bundlePrograms();
  const parts = files.filter((file) => !isProgram(file));
  for (const { path, contents } of parts) put(path, contents);
  const dashboard = await freshDashboard();
  put(join(FOLDER, 'dashboard.bin'), readFileSync(dashboard.path));
  put(join(FOLDER, 'licenses.txt'), licensesOf([...Object.keys(metafile.inputs), ...dashboard.inputs]));
  for (const { path, contents } of files.filter(isProgram)) put(path, contents);
  put(FINGERPRINT, sources);
  removeOldParts(new Set(files.map(({ path }) => basename(path))), keptMs);
}

async function bundlePrograms() {
  const { build, stop } = await import('esbuild');
  const result = await build({
    absWorkingDir: ROOT,
    entryPoints: PROGRAMS,
    outdir: FOLDER,
    write: false,
    metafile: true,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    sourcemap: true,
    sourcesContent: false,
    minifySyntax: true,
    minifyWhitespace: true,
    // Native parts of packages are optional: packages try to load them, and work without.
    external: ['esbuild', '*.node'],
    plugins: [leaveOut],
    // Packages in CommonJS require() what is built into Node.
    banner: {
      js: "import { createRequire as createRequire_ } from 'node:module'; const require = createRequire_(import.meta.url);",
    },
    logLevel: 'error',
  });
  // Without this call esbuild's helper process would stay as long as this process.
  await stop();
  return result;
}

/**
 * What dockerode loads for ways that the driver does not go: daemons over SSH, and builds of images. It looks for files
 * beside itself, which a bundle has not. Its `debug` also loads supports-color where that happens to be, as it does for
 * tests alone. What takes their place is empty.
 */
const leaveOut: Plugin = {
  name: 'leave-out',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(?:ssh2|@grpc\/.*|protobufjs|supports-color)$/ }, ({ path, importer }) =>
      /node_modules\/(?:docker(?:ode|-modem)|debug)\//.test(importer)
        ? { path, namespace: 'left-out' }
        : null,
    );
    onLoad({ filter: /.*/, namespace: 'left-out' }, () => ({ contents: '' }));
  },
};

function isProgram({ path }: { path: string }): boolean {
  return basename(path).split('.', 1)[0]! in PROGRAMS;
}

/** The packages whose code is in the bundles, each with its licence, as that asks for. */
function licensesOf(inputs: string[]): string {
  const folders = new Set(inputs.flatMap((path) => /.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? []));
  const texts = [...folders].sort().map((folder) => {
    const own = join(ROOT, folder);
    const { name, version, license } = JSON.parse(readFileSync(join(own, 'package.json'), 'utf8'));
    const file = readdirSync(own).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file ? readFileSync(join(own, file), 'utf8').trim() : license;
    return `${name} ${version}\n\n${text}\n`;
  });
  return texts.join('\n----\n\n');
}

function put(path: string, contents: string | Uint8Array): void {
  writeFileSync(unfinished(path), contents);
  renameSync(unfinished(path), path);
}

function unfinished(path: string): string {
  return `${path}.${process.pid}`;
}

function removeOldParts(current: ReadonlySet<string>, keptMs: number): void {
  for (const name of readdirSync(FOLDER)) {
    const isPart = /-[A-Z0-9]{8}\.js(?:\.map)?$/.test(name);
    if (!isPart || current.has(name)) continue;
    const path = join(FOLDER, name);
    const written = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
    if (Date.now() - written > keptMs) rmSync(path, { force: true });
  }
}

// Node 22 has no `import.meta.main`.
const isMain = process.argv[1] !== undefined && realpathSync(process.argv[1]) === import.meta.filename;
// On stderr, so that what a command prints for other programs stays whole.
if (isMain) await freshPrograms(console.error);
