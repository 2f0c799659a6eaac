import type { MiddlewareHandler } from 'hono';
import { dialectOf } from '../protocol/index.ts';
import { errorResponse, HttpError, noRoute, otherMethod, toHttpError } from './errors.ts';
import { crossOrigin, isOddHost, nameRequest } from './middleware.ts';
import { auditRoute } from './routes/audit.ts';
import { batchRoutes } from './routes/batches.ts';
import { documentRoutes } from './routes/documents.ts';
import { fileRoutes } from './routes/files.ts';
import { fleetRoutes, sharingRoute } from './routes/fleet.ts';
import { inferenceRoute } from './routes/inference.ts';
import { jobContentsRoutes, jobListRoutes, jobStreamRoute } from './routes/job-reads.ts';
import { jobSocketRoute } from './routes/job-socket.ts';
import { jobRoutes } from './routes/jobs.ts';
import { matchingJobsRoutes } from './routes/matching-jobs.ts';
import { metricsRoutes } from './routes/metrics.ts';
import { modelRoutes } from './routes/models.ts';
import { pageRoutes } from './routes/page.ts';
import { payloadRoutes } from './routes/payloads.ts';
import { requestRoutes } from './routes/requests.ts';
import { Gateway, type GatewayContext } from './routes/route.ts';
import { runpodRoutes } from './routes/runpod.ts';
import { schedulerRoutes } from './routes/scheduler.ts';
import { sessionRoutes } from './routes/session.ts';
import { socketRoutes } from './routes/sockets.ts';
import { telemetryRoutes } from './routes/telemetry.ts';
import { tokenRoutes } from './routes/tokens.ts';
import { usageRoutes } from './routes/usage.ts';

/**
 * Returns the gateway: every route, and the answer to any other request.
 * @param features what features register
 * @param page the dashboard's files (dashboard/archive.ts); without them there is no page
 */
export function createApp(features: readonly ((app: Gateway) => void)[], page?: ArrayBuffer): Gateway {
  // Paths may end with a slash or not.
  const app = new Gateway({ strict: false });
  app.use(nameRequest);
  app.use(crossOrigin);
  app.use(rejectOddHosts);
  app.use(rejectCompressed);
  sessionRoutes(app);
  modelRoutes(app);
  fileRoutes(app);
  batchRoutes(app);
  for (const register of features) register(app);
  jobSocketRoute(app);
  jobListRoutes(app);
  matchingJobsRoutes(app);
  jobRoutes(app);
  jobContentsRoutes(app);
  jobStreamRoute(app);
  fleetRoutes(app);
  requestRoutes(app);
  schedulerRoutes(app);
  tokenRoutes(app);
  auditRoute(app);
  usageRoutes(app);
  sharingRoute(app);
  telemetryRoutes(app);
  metricsRoutes(app);
  payloadRoutes(app);
  runpodRoutes(app);
  socketRoutes(app);
  documentRoutes(app);
  const wrongAddress = page && pageRoutes(app, page);
  // Routes of engines lie between those of the gateway: POST /v1/responses/render, GET /v1/responses/{id}.
  inferenceRoute(app);
  rejectOtherMethods(app);
  if (wrongAddress) app.get('*', wrongAddress);

  app.notFound((context) => {
    const { method, path } = context.req;
    return told(noRoute(method, path), context);
  });
  app.onError(told);
  return app;
}

/** Returns an error in the form that the callers of this route read. */
function told(error: Error, context: GatewayContext): Response {
  const requestId = context.get('requestId');
  return errorResponse(toHttpError(error, requestId), { dialect: dialectOf(context.req.path), requestId });
}

const rejectOddHosts: MiddlewareHandler = (context, next) => {
  const host = context.req.header('host');
  if (URL.canParse(context.req.raw.url) && (host === undefined || !isOddHost(host))) return next();
  const message = 'The Host header must be a name or an address, with a port or without.';
  throw new HttpError(400, message, 'invalid_host');
};

/**
 * Rejects compressed bodies: bodies are passed on as they come and read on the way, and a compressed one could be
 * neither bounded nor read.
 */
const rejectCompressed: MiddlewareHandler = (context, next) => {
  const encoding = context.req.header('content-encoding')?.trim().toLowerCase() || 'identity';
  if (encoding === 'identity') return next();
  const message = `The body is compressed (Content-Encoding: ${encoding}); send it as it is.`;
  throw new HttpError(415, message, 'unsupported_encoding', { 'accept-encoding': 'identity' });
};

/** Answers a path that exists with 405 where it does not have the requested method. */
function rejectOtherMethods(app: Gateway): void {
  const methods = new Map<string, Set<string>>();
  for (const { path, method } of app.routes) {
    if (method === 'ALL') continue;
    methods.set(path, (methods.get(path) ?? new Set()).add(method));
  }
  for (const [path, known] of methods) {
    app.all(path, (context) => {
      throw otherMethod(context.req.method, context.req.path, [...known]);
    });
  }
}
