import type { BatchesAsk } from '../../batches/object.ts';
import type { BatchFiles } from '../../batches/ports.ts';
import { inferenceRoutes } from '../../protocol/index.ts';
import type { Env } from '../env.ts';
import { callFiles } from '../objects/calls.ts';
import { batchQueue, ownModels } from './queue.ts';

/** Returns the calls that the object of a queue id's batches makes to other objects, in the same way as the gateway. */
export function batchesAsk(env: Env, queueId: string): BatchesAsk {
  return {
    queue: batchQueue(env, queueId),
    files: batchFiles(env, queueId),
    routes: inferenceRoutes(env.INFERENCE_ROUTES),
    ownModels: (models) => ownModels(env, models),
  };
}

/** Returns calls of the object that holds the files of a queue id's batches. */
function batchFiles(env: Env, queueId: string): BatchFiles {
  return {
    size: (id) => callFiles(env, queueId, (files) => files.size(id)),
    read: (id, offset, length) => callFiles(env, queueId, (files) => files.read(id, offset, length)),
    readLines: (id, lines) => callFiles(env, queueId, (files) => files.readLines(id, lines)),
    append: (id, lines) => callFiles(env, queueId, (files) => files.append(id, lines)),
    keep: (id, expiresAt) => callFiles(env, queueId, (files) => files.keep(id, expiresAt)),
  };
}
