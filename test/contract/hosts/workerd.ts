import { join } from 'node:path';
import { build } from 'esbuild';
import { Miniflare } from 'miniflare';
import { cloudflareConfiguration } from '../../support/cloudflare-bundle.ts';
import { endWithParent } from './end-with-parent.ts';

/** Probes as Durable Objects, in workerd as wrangler runs it locally: `workerd.ts PORT FOLDER`. */
const [port, folder] = process.argv.slice(2) as [string, string];
const { compatibility_date, compatibility_flags } = cloudflareConfiguration();
const { outputFiles } = await build({
  entryPoints: [join(import.meta.dirname, 'workerd-entry.ts')],
  bundle: true,
  write: false,
  format: 'esm',
  target: 'es2024',
  conditions: ['workerd', 'worker', 'browser'],
  external: ['cloudflare:*'],
});
const modules = { 'main.js': { type: 'esm' as const, contents: outputFiles[0]!.text } };
const miniflare = new Miniflare({
  host: '127.0.0.1',
  port: Number(port),
  resourcePersistencePath: folder,
  // Neither writes outside its own folder nor asks anybody anything.
  cf: false,
  enableDevRegistry: false,
  telemetry: { enabled: false },
  workers: [
    {
      config: {
        name: 'probe',
        compatibilityDate: compatibility_date,
        compatibilityFlags: compatibility_flags,
        manifest: { mainModule: 'main.js', modules },
        env: { PROBE: { type: 'durable-object', worker: 'probe', exportName: 'ProbeObject' } },
        exports: { ProbeObject: { type: 'durable-object', storage: 'sqlite' } },
      },
    },
  ],
});
endWithParent(() => miniflare.dispose());
await miniflare.ready;
console.log('ready');
