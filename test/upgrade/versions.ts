import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inject } from 'vitest';
import type * as client from '../../src/client/index.ts';
import { CLI } from '../support/road.ts';

/** A version whose programs and client run in these tests. */
export interface Version {
  /** Its `bin/worker-vllm.js`. */
  program: string;
  /** Its client, as other packages import it. */
  client: typeof client;
}

export const today: Version = { program: CLI, client: await import('../../src/client/index.ts') };

const folder = inject('versionBefore');
export const before: Version = {
  program: join(folder, 'bin/worker-vllm.js'),
  client: await import(pathToFileURL(join(folder, 'dist/client/index.js')).href),
};
