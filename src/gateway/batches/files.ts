import type { BatchFiles } from '../../batches/ports.ts';
import type { Env } from '../env.ts';
import { fileObject } from '../objects.ts';

/** The files of a queue id's batches, each in an object of its own. */
export function batchFiles(env: Env, queueId: string): BatchFiles {
  const object = (id: string) => fileObject(env, queueId, id);
  return {
    size: (id) => object(id).size(),
    read: (id, offset, length) => object(id).read(offset, length),
    readLines: (id, lines) => object(id).readLines(lines),
    append: (id, lines) => object(id).append(lines),
    keep: (id, expiresAt) => object(id).keep(expiresAt),
  };
}
