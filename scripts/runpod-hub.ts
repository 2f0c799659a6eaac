import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { hubFiles } from './runpod-hub/files.ts';

/** `node scripts/runpod-hub.ts`: writes RunPod's forms and their page in docs/ anew. A test holds them equal. */
for (const [path, content] of Object.entries(hubFiles())) {
  const file = join(import.meta.dirname, '..', path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
}
