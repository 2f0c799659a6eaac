import { join } from 'node:path';
import { inject } from 'vitest';
import { type Child, startProcess } from '../support/processes.ts';
import { cleanEnvironment } from '../support/road.ts';

/** Runs the installed `worker-vllm …` in the folder where it was installed. */
export function installed(args: string[], env: NodeJS.ProcessEnv = {}): Child {
  const app = inject('app');
  return startProcess(process.execPath, [join(app, 'node_modules/.bin/worker-vllm'), ...args], {
    cwd: app,
    env: cleanEnvironment(env),
    name: `installed worker-vllm ${args[0]}`,
  });
}
