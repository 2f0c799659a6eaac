import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { type ClientsInstall, ensureClients } from '../../scripts/clients/setup.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const EXAMPLES = join(ROOT, 'examples');

/** What each is to print. */
export const EXPECTED: Record<string, RegExp[]> = {
  'curl.sh': [/"object":"chat\.completion"/, /data: \[DONE\]/, /"state":"succeeded"/],
  'openai-node.mjs': [/^chat: +\S/m, /^stream: +\S/m],
  'openai_python.py': [/^chat: +\S/m, /^stream: +\S/m],
  'batch-node.mjs': [
    /^batch: completed \{"total":5,"completed":5,"failed":0\}$/m,
    /^(?:answer: question-\d .*\n){5}$/m,
  ],
  'batch_python.py': [
    /^batch: completed BatchRequestCounts\(completed=5, failed=0, total=5\)/m,
    /^(?:answer: question-\d .*\n){5}$/m,
  ],
  'anthropic_python.py': [/^message: .*16$/m, /^stream: +\S/m],
  'langchain_python.py': [/^invoke: +\S/m, /^stream: +\S/m],
  'litellm_python.py': [/^completion: +\S/m, /^stream: +\S/m],
  'ai-sdk.mjs': [/^text: .*16$/m, /^stream: +\S/m],
  'runpod_python.py': [
    /^run_sync: +\[.*tokens/m,
    /^output: +\[/m,
    /^piece: +\{.*tokens/m,
    /^health: .*'jobs'/m,
  ],
  'submit-jobs.mjs': [/^(?:\S+ succeeded (?!undefined).*\n){5}$/],
  'submit_jobs_python.py': [/^(?:\S+ succeeded .*\n){5}$/],
};

/** What needs an engine that can call tools: the simulator cannot. Arguments that make sense need a trained model. */
export const EXPECTED_OF_AN_ENGINE: Record<string, RegExp[]> = {
  'openai-tools.mjs': [/^tool call: get_weather /m, /^structured: +\{/m],
};

/** The other files in examples/: the fleet and the receiver of hooks have tests of their own. */
const NO_CLIENTS = ['README.md', 'fleet.yaml', 'hook-receiver.mjs'];

/** Names of the clients in examples/. */
export function examples(): string[] {
  return readdirSync(EXAMPLES).filter((name) => !NO_CLIENTS.includes(name));
}

/** Installs the client of clients/python into a folder, as pip installs it. @param python has what builds it */
export async function installPythonClient(python: string, folder: string): Promise<void> {
  const offline = ['--no-build-isolation', '--no-deps', '--no-index', '--disable-pip-version-check'];
  const source = join(ROOT, 'clients/python');
  const pip = ['-m', 'pip', 'install', '--quiet', '--upgrade', '--target', folder];
  await promisify(execFile)(python, [...pip, ...offline, source]);
}

/** Installs the clients, and `worker-vllm` beside them as npm and pip would. */
export async function installExamples(): Promise<ClientsInstall> {
  const clients = await ensureClients();
  await promisify(execFile)('npm', ['run', 'build'], { cwd: ROOT });
  const link = join(clients.node, 'node_modules/worker-vllm');
  mkdirSync(join(clients.node, 'node_modules'), { recursive: true });
  rmSync(link, { force: true });
  symlinkSync(ROOT, link);
  await installPythonClient(clients.python, pythonClientOf(clients));
  return clients;
}

const pythonClientOf = (clients: ClientsInstall) => join(clients.node, 'worker-vllm-python');

/** Runs an example as its reader would, and looks at what it prints. */
export async function runExample(clients: ClientsInstall, name: string, url: string, expected: RegExp[]) {
  const { command, file } = runnerOf(clients, name);
  const { stdout } = await promisify(execFile)(command, [file], {
    // A proxy of the environment must not come between, and LiteLLM not ask others for prices.
    env: {
      ...process.env,
      WORKER_VLLM_URL: url,
      PYTHONPATH: pythonClientOf(clients),
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      NO_PROXY: '*',
      no_proxy: '*',
    },
  });
  for (const pattern of expected) expect(stdout).toMatch(pattern);
}

/** Node looks for packages beside the file that imports them, so its examples are copied to where those are. */
function runnerOf(clients: ClientsInstall, name: string): { command: string; file: string } {
  const file = join(EXAMPLES, name);
  if (name.endsWith('.sh')) return { command: 'bash', file };
  if (name.endsWith('.py')) {
    return { command: name.includes('litellm') ? clients.pythonWithLiteLLM : clients.python, file };
  }
  const copy = join(clients.node, name);
  copyFileSync(file, copy);
  return { command: process.execPath, file: copy };
}
