import { vi } from 'vitest';
import { RELAYS_APART } from '../support/relay-shape.ts';

/** The same tests with every relay in an object of its own, as on Cloudflare. */
vi.stubEnv(RELAYS_APART, '1');
await import('./relay.test.ts');
await import('./job-stream.test.ts');
