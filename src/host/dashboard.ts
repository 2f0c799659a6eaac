import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompress } from 'node:zlib';
import { type PageFile, packPage } from '../dashboard/archive.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SOURCES = join(ROOT, 'src/dashboard');
const FOLDER = join(ROOT, 'dist/dashboard');
/** The archive of the page's files, which host/cloudflare/main.ts imports. */
const ARCHIVE = join(FOLDER, 'dashboard.bin');
/** The record beside the archive: the fingerprint of its sources, and the files that went into it. */
const MADE_OF = join(FOLDER, 'made-of.json');

const CONTENT_TYPES: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
};

export interface Dashboard {
  /** The path of the archive. */
  path: string;
  /** The paths of all files that went into the archive, from the root of the checkout. */
  inputs: string[];
}

/** Builds the page from the sources, unless it was already built from the same sources. */
export async function freshDashboard(): Promise<Dashboard> {
  const fingerprint = fingerprintOf(SOURCES);
  if (existsSync(MADE_OF) && existsSync(ARCHIVE)) {
    const made = JSON.parse(readFileSync(MADE_OF, 'utf8')) as { fingerprint: string; inputs: string[] };
    if (made.fingerprint === fingerprint) return { path: ARCHIVE, inputs: made.inputs };
  }
  const { archive, inputs } = await buildDashboard();
  mkdirSync(FOLDER, { recursive: true });
  put(ARCHIVE, archive);
  put(MADE_OF, JSON.stringify({ fingerprint, inputs }));
  return { path: ARCHIVE, inputs };
}

async function buildDashboard(): Promise<{ archive: Uint8Array; inputs: string[] }> {
  // esbuild is installed only where the sources are.
  const { build, stop } = await import('esbuild');
  const { outputFiles, metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: [join(SOURCES, 'main.tsx')],
    outdir: FOLDER,
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    write: false,
    metafile: true,
    bundle: true,
    splitting: true,
    format: 'esm',
    target: 'es2022',
    minify: true,
    jsx: 'automatic',
    jsxImportSource: 'preact',
    logLevel: 'silent',
  });
  // Without this call esbuild's helper process would stay as long as this process.
  await stop();
  const files = await Promise.all(
    outputFiles.map(({ path, contents }) => pageFile(basename(path), contents)),
  );
  const hash = createHash('sha256');
  const index = indexOf(files.map(({ name }) => name));
  for (const part of [index, ...files.map(({ plain }) => plain)]) hash.update(part);
  const version = hash.digest('hex').slice(0, 16);
  return { archive: packPage({ version, index, files }), inputs: Object.keys(metafile.inputs) };
}

async function pageFile(name: string, plain: Uint8Array): Promise<PageFile> {
  const brotli = await promisify(brotliCompress)(plain);
  return { name, contentType: CONTENT_TYPES[extname(name)] ?? 'application/octet-stream', plain, brotli };
}

/** Returns the page's HTML with the file names that the build gave. */
function indexOf(names: string[]): string {
  const template = readFileSync(join(SOURCES, 'index.html'), 'utf8');
  return template.replaceAll(/\{\{(main)(\.\w+)\}\}/g, (_, stem: string, end: string) => {
    const name = names.find((candidate) => candidate.startsWith(`${stem}-`) && candidate.endsWith(end));
    if (name === undefined) throw new Error(`the page's build made no ${stem}${end}`);
    return name;
  });
}

/** Writes a file in one step, since other processes may read or build it at this moment. */
function put(path: string, contents: string | Uint8Array): void {
  const unfinished = `${path}.${process.pid}`;
  writeFileSync(unfinished, contents);
  renameSync(unfinished, path);
}

/** Returns a text that changes when a file is added, removed or written, or another version of a package installed. */
function fingerprintOf(folder: string): string {
  const hash = createHash('sha256');
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  for (const path of [...paths.map((path) => join(folder, path)), join(ROOT, 'package-lock.json')]) {
    const { size, mtimeMs } = statSync(path);
    hash.update(`${path} ${size} ${mtimeMs}\n`);
  }
  return hash.digest('hex');
}
