/** What workerd (and Cloudflare) serves: the HTTP gateway, and the kinds of object behind it. */
import dashboard from '../../dist/dashboard/dashboard.bin';
import { createApp } from './app.ts';

export { FileObject } from '../host/cloudflare/file-object.ts';
export { FleetObject } from '../host/cloudflare/fleet-object.ts';
export { QueueObject } from '../host/cloudflare/queue-object.ts';
export { RelayObject } from '../relay/object/object.ts';
export { BatchesObject } from './batches/object.ts';

export default { fetch: createApp(dashboard).fetch };
