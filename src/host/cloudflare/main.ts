/** The program that Cloudflare runs: the HTTP gateway, and the kinds of object behind it. */
import dashboard from '../../../dist/dashboard/dashboard.bin';
import { createApp } from '../../gateway/app.ts';
import { type Bindings, environmentOf } from './environment.ts';

export { BatchesObject } from './batches-object.ts';
export { FileObject } from './file-object.ts';
export { FleetObject } from './fleet-object.ts';
export { QueueObject } from './queue-object.ts';
export { RelayObject } from './relay-object.ts';

const app = createApp(dashboard);

export default {
  fetch: (request: Request, bindings: Bindings, context: ExecutionContext) =>
    app.fetch(request, environmentOf(bindings), context),
};
