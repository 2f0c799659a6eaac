import { copyFileSync, existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Beside the programs that `npm run build` makes; there is none in `src/`. */
const BUILT = fileURLToPath(new URL('./gateway.js', import.meta.url));

/** The gateway and its objects in one file: as built with the programs, else from the sources. */
export async function bundle(outfile: string): Promise<void> {
  if (existsSync(BUILT)) copyFileSync(BUILT, outfile);
  else await buildGateway(outfile);
}

/** What paths are relative to, wherever the command was given. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** @returns paths of all that went into it, from the root of the checkout */
export async function buildGateway(outfile: string): Promise<string[]> {
  // Installed only where the sources are.
  const { build, stop } = await import('esbuild');
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: [fileURLToPath(new URL('../gateway/main.ts', import.meta.url))],
    outfile,
    bundle: true,
    metafile: true,
    format: 'esm',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['cloudflare:*'],
    logLevel: 'silent',
  });
  // Or its helper process would stay as long as this one.
  await stop();
  return Object.keys(metafile.inputs);
}
