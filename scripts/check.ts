import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** `npm run check`: runs all checks that do not run the code. Prints the failed ones with their output. */
const CHECKS: Record<string, [command: string, ...args: string[]]> = {
  'types (node)': ['tsc', '-p', 'tsconfig.json'],
  'types (workerd)': ['tsc', '-p', 'scripts/tsconfig.workerd.json'],
  'types (dashboard)': ['tsc', '-p', 'src/dashboard/tsconfig.json'],
  'lint, format and file lengths': ['biome', 'check', '--error-on-warnings', '--max-diagnostics=100', '.'],
  'rooms and cycles': ['node', 'scripts/check-rooms.ts'],
  'unused exports, files and dependencies': ['knip'],
  'cloudflare bundle': [
    'wrangler',
    'deploy',
    '--config',
    'deploy/cloudflare/wrangler.jsonc',
    '--dry-run',
    '--outdir',
    join(tmpdir(), 'worker-vllm-dry-run'),
  ],
};

const root = join(import.meta.dirname, '..');
const bin = join(root, 'node_modules', '.bin');

function run(name: string, [command, ...args]: [string, ...string[]]): Promise<boolean> {
  const child = spawn(join(bin, command), args, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, WRANGLER_SEND_METRICS: 'false', CI: 'true', PATH: `${bin}:${process.env.PATH}` },
  });
  let output = '';
  child.stdout.on('data', (data) => (output += data));
  child.stderr.on('data', (data) => (output += data));
  return new Promise((resolve) => {
    const finish = (code: number | null) => {
      console.log(`${code === 0 ? 'ok  ' : 'FAIL'} ${name}`);
      const shown = code === 0 ? longFiles(output) : output.trimEnd();
      if (shown !== '') console.log(shown.replaceAll(/^/gm, '     '));
      resolve(code === 0);
    };
    child.once('error', (error) => {
      output += error.message;
      finish(1);
    });
    child.once('close', finish);
  });
}

/** A long file is reported, not refused: a limit that fails makes files of just that length, not smaller ideas. */
function longFiles(output: string): string {
  const found = [...output.matchAll(/^(\S+?):\d+:\d+ lint\/style\/noExcessiveLinesPerFile/gm)];
  return found.map(([, path]) => `over 300 lines: ${path}`).join('\n');
}

const results = await Promise.all(Object.entries(CHECKS).map(([name, command]) => run(name, command)));
const failed = results.filter((passed) => !passed).length;
console.log(`check: ${results.length - failed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
