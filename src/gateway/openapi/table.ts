import { batches } from './rows/batches.ts';
import { documents } from './rows/documents.ts';
import { files } from './rows/files.ts';
import { fleet } from './rows/fleet.ts';
import { inference } from './rows/inference.ts';
import { jobs } from './rows/jobs.ts';
import { metrics } from './rows/metrics.ts';
import { page } from './rows/page.ts';
import { runpod } from './rows/runpod.ts';
import { scheduler } from './rows/scheduler.ts';
import { usage } from './rows/usage.ts';
import { workers } from './rows/workers.ts';
import type { RouteRow } from './types.ts';

/**
 * Every route of the gateway, for `/openapi.json`. A route that is added needs a row here; the test
 * (test/rules/gateway/openapi.test.ts) names those that are missing, and rows without a route.
 */
export const ROUTES: readonly RouteRow[] = [
  ...inference,
  ...jobs,
  ...files,
  ...batches,
  ...fleet,
  ...scheduler,
  ...usage,
  ...metrics,
  ...page,
  ...runpod,
  ...workers,
  ...documents,
];
