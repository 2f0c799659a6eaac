import type { BatchFiles } from '../../batches/ports.ts';
import type { Env } from '../env.ts';
import { callFiles } from '../objects/calls.ts';

/** The files of a queue id's batches. */
export function batchFiles(env: Env, queueId: string): BatchFiles {
  return {
    size: (id) => callFiles(env, queueId, (files) => files.size(id)),
    read: (id, offset, length) => callFiles(env, queueId, (files) => files.read(id, offset, length)),
    readLines: (id, lines) => callFiles(env, queueId, (files) => files.readLines(id, lines)),
    append: (id, lines) => callFiles(env, queueId, (files) => files.append(id, lines)),
    keep: (id, expiresAt) => callFiles(env, queueId, (files) => files.keep(id, expiresAt)),
  };
}
