import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readQueueSettings } from '../../src/host/node/settings.ts';
import { type Child, startProcess } from './processes.ts';

/** The queue as it is deployed on Cloudflare, by `wrangler dev`: what docs/deploying.md says, on this machine. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Deployment {
  port: number;
  /** The folder of the objects, the bucket and the written configuration. */
  stateDir: string;
  /** Settings by their variables, as for `worker-vllm queue`. */
  env: NodeJS.ProcessEnv;
}

/** Not waited for. */
export async function startWranglerDev({ port, stateDir, env }: Deployment): Promise<Child> {
  const config = await writeConfig(stateDir, env);
  const address = ['--ip', '127.0.0.1', '--port', String(port), '--inspector-port', '0'];
  const child = startProcess(
    process.execPath,
    [
      join(ROOT, 'node_modules/wrangler/bin/wrangler.js'),
      'dev',
      ...['--config', config, '--persist-to', join(stateDir, 'objects'), ...address],
      ...['--show-interactive-dev-session', 'false', '--live-reload', 'false'],
    ],
    {
      env: {
        ...process.env,
        PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`,
        // It asks nobody anything.
        CI: '1',
        WRANGLER_SEND_METRICS: 'false',
        WRANGLER_HIDE_BANNER: 'true',
        WRANGLER_LOG_PATH: join(stateDir, 'logs'),
        WRANGLER_REGISTRY_PATH: join(stateDir, 'registry'),
      },
      cwd: stateDir,
      name: 'wrangler dev',
    },
  );
  return {
    ...child,
    // Of several processes workerd keeps the state, so all of them are killed.
    kill: (signal) => (signal === 'SIGKILL' ? process.kill(-child.pid, signal) : child.kill(signal)),
  };
}

/**
 * wrangler.jsonc as it is, with its bucket bound and settings as variables. What `wrangler secret put` would set lies beside
 * it: the key of addresses, and the tokens that `worker-vllm token create` has made in that folder or that QUEUE_TOKENS names.
 */
export async function writeConfig(folder: string, env: NodeJS.ProcessEnv): Promise<string> {
  const { objectSettings, tokens } = await readQueueSettings({ state: folder }, env);
  const secrets = { FILE_KEY_SECRET: 'a secret of the tests', TOKENS: JSON.stringify(tokens) };
  const changes: [RegExp, string][] = [
    [/\/\/ ("r2_buckets": .*)/, '$1'],
    [/\/\/ "vars": .*/, `"vars": ${JSON.stringify(objectSettings)},`],
    [/"main": "[./]*(.*)"/, `"main": "${ROOT}$1"`],
    [/"build": \{ (.*)"watch_dir": "[^"]*" \}/, `"build": { $1"cwd": "${ROOT}" }`],
  ];
  let text = readFileSync(join(ROOT, 'deploy/cloudflare/wrangler.jsonc'), 'utf8');
  for (const [what, by] of changes) {
    if (!what.test(text)) throw new Error(`wrangler.jsonc has nothing like ${what}`);
    text = text.replace(what, by);
  }
  mkdirSync(folder, { recursive: true });
  const path = join(folder, 'wrangler.jsonc');
  writeFileSync(path, text);
  const lines = Object.entries(secrets).map(([name, value]) => `${name}='${value}'\n`);
  writeFileSync(join(folder, '.dev.vars'), lines.join(''));
  return path;
}
