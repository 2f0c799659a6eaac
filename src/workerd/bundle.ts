import { copyFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import type { Plugin } from 'esbuild';
import { freshDashboard } from '../host/dashboard.ts';

/** The modules of the worker: the gateway with its objects, and the page's files, which it imports. */
export const MODULES = { main: 'main.js', dashboard: 'dashboard.bin' };

/** Beside the programs that `npm run build` makes; there are none in `src/`. */
const BUILT = {
  main: fileURLToPath(new URL('./gateway.js', import.meta.url)),
  dashboard: fileURLToPath(new URL('./dashboard.bin', import.meta.url)),
};

/** Puts the modules into a folder: as built with the programs, else from the sources. */
export async function bundle(folder: string): Promise<void> {
  const main = join(folder, MODULES.main);
  if (existsSync(BUILT.main)) copyFileSync(BUILT.main, main);
  else await buildGateway(main);
  const dashboard = existsSync(BUILT.dashboard) ? BUILT.dashboard : (await freshDashboard()).path;
  copyFileSync(dashboard, join(folder, MODULES.dashboard));
}

/**
 * Puts the OpenAPI document, compressed, in the place of what makes it: 17 kB instead of 46. Without this, as on
 * Cloudflare, the gateway makes it when it is first asked for.
 */
const openApiAsText: Plugin = {
  name: 'openapi as text',
  setup({ onLoad }) {
    onLoad({ filter: /\/gateway\/openapi\/text\.ts$/ }, async ({ path }) => {
      const { openApiText } = (await import(pathToFileURL(path).href)) as {
        openApiText(rows: unknown): Promise<string>;
      };
      const app = new URL('../app.ts', pathToFileURL(path)).href;
      const { createApp } = (await import(app)) as { createApp(): { rows: unknown } };
      const packed = JSON.stringify(
        gzipSync(await openApiText(createApp().rows), { level: 9 }).toString('base64'),
      );
      const unpacked = `new Blob([Uint8Array.fromBase64(${packed})]).stream().pipeThrough(new DecompressionStream('gzip'))`;
      return { contents: `export const openApiText = () => new Response(${unpacked}).text();`, loader: 'js' };
    });
  },
};

/** What paths are relative to, wherever the command was given. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** @returns paths of all that went into it, from the root of the checkout */
export async function buildGateway(outfile: string): Promise<string[]> {
  // Installed only where the sources are.
  const { build, stop } = await import('esbuild');
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: [fileURLToPath(new URL('../host/cloudflare/main.ts', import.meta.url))],
    outfile,
    bundle: true,
    metafile: true,
    format: 'esm',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['cloudflare:*'],
    // workerd keeps the text: blanks and comments are 4 MB of resident memory. Names stay, for stacks and profiles.
    minifySyntax: true,
    minifyWhitespace: true,
    plugins: [
      openApiAsText,
      {
        name: 'modules of data stay modules, beside the main one',
        setup({ onResolve }) {
          onResolve({ filter: /\.bin$/ }, () => ({ path: `./${MODULES.dashboard}`, external: true }));
        },
      },
    ],
    logLevel: 'silent',
  });
  // Or its helper process would stay as long as this one.
  await stop();
  return Object.keys(metafile.inputs);
}
