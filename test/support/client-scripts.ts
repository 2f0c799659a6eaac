import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';

/** What a script of test/clients prints as its last line. */
export async function ranScript(
  program: string,
  script: string,
  ...args: string[]
): Promise<Record<string, unknown>> {
  const file = resolve(import.meta.dirname, '../clients', script);
  // A proxy of the environment must not come between.
  const env = { ...process.env, NO_PROXY: '*', no_proxy: '*' };
  const { stdout } = await promisify(execFile)(program, [file, ...args], { env });
  return JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<string, unknown>;
}
