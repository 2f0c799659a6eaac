import type { RouteRow } from '../types.ts';

/** Numbers for machines. */
export const metrics: RouteRow[] = [
  {
    method: 'GET',
    path: '/metrics',
    tag: 'Metrics and usage',
    summary: "The queue's numbers for Prometheus",
    description: 'docs/metrics.md lists them. Answers of one second are the same.',
    scopes: ['read'],
    answers: { 200: { description: "Prometheus' text format 0.0.4.", content: { type: 'text/plain' } } },
    errors: [503],
  },
  {
    method: 'GET',
    path: '/api/scale',
    tag: 'Metrics and usage',
    summary: 'How much work there is for the workers of a config, for autoscalers',
    scopes: ['read'],
    query: { config_id: { description: 'Of which config.' } },
    answers: { 200: { description: 'As it stands.', content: { schema: 'Scale' } } },
    errors: [400, 503],
  },
];
