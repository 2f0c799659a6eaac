import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

/** The gateway and its objects in one file. Synchronous, because the other form leaves a helper process running. */
export function bundle(outfile: string): void {
  buildSync({
    entryPoints: [fileURLToPath(new URL('../gateway/main.ts', import.meta.url))],
    outfile,
    bundle: true,
    format: 'esm',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['cloudflare:*'],
    logLevel: 'silent',
  });
}
