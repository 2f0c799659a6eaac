import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Writes a file of variables, as `worker-vllm swap` reads one for each model. @returns its path */
export function writeEnvFile(
  folder: string,
  name: string,
  variables: Record<string, string | number>,
): string {
  const path = join(folder, `${name}.env`);
  writeFileSync(
    path,
    Object.entries(variables)
      .map(([key, value]) => `${key}=${value}\n`)
      .join(''),
  );
  return path;
}
