import { freshDashboard } from '../src/host/dashboard.ts';

/** Builds the page; wrangler runs this before it bundles the gateway, which imports the page's files. */
await freshDashboard();
