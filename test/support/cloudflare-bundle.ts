import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build, stop } from 'esbuild';
import { freshDashboard } from '../../src/host/dashboard.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** What is deployed on Cloudflare, as wrangler makes it: the code, and the page's files beside it. */
export interface CloudflareBundle {
  main: { name: string; text: string };
  page: { name: string; bytes: Uint8Array<ArrayBuffer> };
}

export async function cloudflareBundle(): Promise<CloudflareBundle> {
  const page = { name: 'dashboard.bin', bytes: readFileSync((await freshDashboard()).path) };
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    entryPoints: ['src/host/cloudflare/main.ts'],
    write: false,
    bundle: true,
    format: 'esm',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['cloudflare:*'],
    plugins: [
      {
        name: 'modules of data stay modules, beside the main one',
        setup({ onResolve }) {
          onResolve({ filter: /\.bin$/ }, () => ({ path: `./${page.name}`, external: true }));
        },
      },
    ],
    logLevel: 'silent',
  });
  // Without this call esbuild's helper process would stay as long as this process.
  await stop();
  return { main: { name: 'main.js', text: outputFiles[0]!.text }, page };
}

/** The parts of deploy/cloudflare/wrangler.jsonc that the runtime is told. */
export function cloudflareConfiguration(): { compatibility_date: string; compatibility_flags: string[] } {
  const text = readFileSync(`${ROOT}/deploy/cloudflare/wrangler.jsonc`, 'utf8');
  return JSON.parse(text.replaceAll(/^\s*\/\/.*$/gm, ''));
}
