import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** `npm run check`: all that can be said of the code without running it. Prints what failed, and its output. */
const CHECKS: Record<string, [command: string, ...args: string[]]> = {
  'types (node)': ['tsc', '-p', 'tsconfig.json'],
  'types (workerd)': ['tsc', '-p', 'tsconfig.workerd.json'],
  'lint and format': ['biome', 'check', '--error-on-warnings', '.'],
  'import table and file lengths': ['node', 'scripts/check-rooms.ts'],
  'cloudflare bundle': ['wrangler', 'deploy', '--dry-run', '--outdir', join(tmpdir(), 'worker-vllm-dry-run')],
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
      if (code !== 0) console.log(output.trimEnd().replaceAll(/^/gm, '     '));
      resolve(code === 0);
    };
    child.once('error', (error) => {
      output += error.message;
      finish(1);
    });
    child.once('close', finish);
  });
}

let failed = 0;
let passed = 0;
for (const [name, command] of Object.entries(CHECKS)) {
  if (await run(name, command)) passed += 1;
  else failed += 1;
}
console.log(`check: ${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
