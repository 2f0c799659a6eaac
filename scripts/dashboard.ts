import { freshDashboard } from '../src/host/dashboard.ts';

/** What wrangler runs before it bundles the gateway, which imports the page's files. */
await freshDashboard();
