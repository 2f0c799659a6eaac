import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { startProcess } from '../../test/support/processes.ts';
import { cleanEnvironment, stateFolder, tearDown } from '../../test/support/road.ts';
import { withoutNpm } from '../pack.ts';

/**
 * Does what somebody does who has the tarball alone: installs it in an empty folder, asks for its version, starts
 * `worker-vllm up` and sends it a request.
 * @throws UserError naming what did not work, with what was printed
 */
export async function tryPackage(tarball: string, version: string): Promise<void> {
  const folder = stateFolder();
  const env = withoutNpm(cleanEnvironment());
  const run = (command: string, ...args: string[]) =>
    execFileSync(command, args, { cwd: folder, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    // Without one npm would take a project in a folder above for this one, and change that.
    writeFileSync(join(folder, 'package.json'), '{}');
    run('npm', 'install', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error', tarball);
    const printed = run('npx', 'worker-vllm', '--version').trim();
    if (printed !== version) {
      throw new UserError(`The package in an empty folder says version "${printed}", not ${version}.`);
    }
    const road = startProcess('npx', ['worker-vllm', 'up', '--port', '0'], { cwd: folder, env });
    const ready = await road.waitForLine(/^Ready: /);
    const answer = await fetch(`${/http\S+/.exec(ready)![0]}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'default', messages: [{ role: 'user', content: 'Say hello.' }] }),
    });
    const text = await answer.text();
    if (!answer.ok || !text.includes('"choices"')) {
      throw new UserError(
        `The package in an empty folder answered a chat with ${answer.status}: ${text}\n${road.output()}`,
      );
    }
    // As Ctrl-C does.
    process.kill(-road.pid, 'SIGINT');
    await road.waitForLine(/Everything has ended/);
  } finally {
    await tearDown();
  }
}
