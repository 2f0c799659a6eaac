/** The program that Cloudflare runs: the HTTP gateway, and the kinds of object behind it. */
import dashboard from '../../../dist/dashboard/dashboard.bin';
import { FEATURE_ROUTES } from '../../features/index.ts';
import { createApp } from '../../gateway/app.ts';
import { type Bindings, environmentOf } from './environment.ts';

export {
  BatchesObject,
  FileObject,
  FleetObject,
  KeptRequestsObject,
  QueueObject,
  RelayObject,
  ResponsesObject,
} from './durable-objects.ts';

const app = createApp(FEATURE_ROUTES, dashboard);

export default {
  fetch: (request: Request, bindings: Bindings, context: ExecutionContext) =>
    app.fetch(request, environmentOf(bindings), context),
};
