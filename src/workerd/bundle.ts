import { copyFileSync, existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

/** Beside the built launcher, made by `npm run build`; a checkout has none in `src/`. */
const BUILT = fileURLToPath(new URL('./gateway.js', import.meta.url));

/** The gateway and its objects in one file: as built into the package, else from the sources. */
export function bundle(outfile: string): void {
  if (existsSync(BUILT)) copyFileSync(BUILT, outfile);
  else buildBundle(outfile);
}

/** Synchronous, because the other form leaves a helper process running. */
export function buildBundle(outfile: string, { sourcemap = false } = {}): void {
  buildSync({
    entryPoints: [fileURLToPath(new URL('../gateway/main.ts', import.meta.url))],
    outfile,
    sourcemap,
    bundle: true,
    format: 'esm',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['cloudflare:*'],
    logLevel: 'silent',
  });
}
