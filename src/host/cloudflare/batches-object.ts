import { BatchesObject as Batches } from '../../gateway/batches/object.ts';
import { type Bindings, environmentOf } from './environment.ts';

/** The Durable Object of a queue's batches. */
export class BatchesObject extends Batches {
  constructor(ctx: DurableObjectState, bindings: Bindings) {
    super(ctx, environmentOf(bindings));
  }
}
