import type { Gateway } from '../gateway/routes/route.ts';
import { alertRoutes } from './alerts/gateway/routes.ts';
import { keptRequestsRoutes } from './kept-requests/routes.ts';
import { oidcRoutes } from './oidc/gateway/routes.ts';
import { conversationRoutes } from './responses/gateway/conversation-routes.ts';
import { listingRoutes } from './responses/gateway/listing.ts';
import { responsesRoutes } from './responses/gateway/routes.ts';
import { usageExportRoute } from './usage-export/routes.ts';

/** The functions by which features register their routes at the gateway; a host hands them to `createApp`. */
export const FEATURE_ROUTES: readonly ((app: Gateway) => void)[] = [
  oidcRoutes,
  responsesRoutes,
  conversationRoutes,
  listingRoutes,
  usageExportRoute,
  alertRoutes,
  keptRequestsRoutes,
];
