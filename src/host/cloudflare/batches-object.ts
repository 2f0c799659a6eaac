import { BatchesObject as Hosted } from '../../batches/object.ts';
import type { ObjectHost } from '../../durable/host.ts';
import { batchesAsk } from '../../gateway/batches/ask.ts';
import { type Bindings, environmentOf } from './environment.ts';
import { shellOf } from './shell.ts';

/** The Durable Object that knows the files and runs the batches of a queue id. */
export class BatchesObject extends shellOf({
  hosted: Hosted,
  make: (host: ObjectHost, bindings: Bindings) =>
    new Hosted(host, batchesAsk(environmentOf(bindings), host.queueId)),
  namespace: ({ BATCHES }) => BATCHES,
}) {}
