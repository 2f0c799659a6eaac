import { CONFIG_ACTIONS, type ConfigAction } from '../../../scheduler/rpc.ts';
import type { RouteRow } from '../types.ts';

const CONTROLS: Record<ConfigAction, string> = {
  launch: 'Launches one worker more for a config, within its max and the budget',
  drain:
    'Ends all workers of a config, busy ones once they have finished, and launches none until it is resumed',
  pause: 'Holds the workers of a config as they are: launches none, ends none',
  resume: 'Lets the rule decide again for a config that was paused or drained, or whose starts failed',
};

/** Machines that start themselves. */
export const scheduler: RouteRow[] = [
  {
    method: 'GET',
    path: '/api/fleet/spec',
    tag: 'Fleet',
    summary: "The fleet's file that is in force",
    scopes: ['read'],
    answers: { 200: { description: 'The file.', content: { schema: 'AppliedSpec' } } },
    errors: [404, 503],
  },
  {
    method: 'POST',
    path: '/api/fleet/spec',
    tag: 'Fleet',
    summary: "Puts a fleet's file in force, as JSON",
    description:
      'A file with faults is answered 400 with all of them, a line each; one that gives the name of a provider that has machines to another place, 409. The old one stays in force.',
    scopes: ['admin'],
    body: { schema: 'SpecRequest' },
    answers: { 200: { description: 'What has changed, or would.', content: { schema: 'SpecChange' } } },
    errors: [400, 409, 413, 503],
  },
  {
    method: 'DELETE',
    path: '/api/fleet/spec',
    tag: 'Fleet',
    summary: 'Takes the file back: all that was launched is drained and terminated',
    scopes: ['admin'],
    query: { dry_run: { description: 'true: only tells what would change.', type: 'boolean' } },
    answers: { 200: { description: 'What has changed, or would.', content: { schema: 'SpecChange' } } },
    errors: [404, 503],
  },
  ...CONFIG_ACTIONS.map(
    (action): RouteRow => ({
      method: 'POST',
      path: `/api/fleet/configs/:id/${action}`,
      tag: 'Fleet',
      summary: CONTROLS[action],
      scopes: ['admin'],
      body: { schema: 'ControlRequest' },
      answers: { 200: { description: 'What was done, or would be.', content: { schema: 'Controlled' } } },
      errors: [400, 404, 409, 413, 503],
    }),
  ),
  {
    method: 'POST',
    path: '/api/launchers/:id/sync',
    tag: 'Fleet',
    summary: 'What a launcher has seen and done, for the orders that are due',
    description: 'docs/scheduling.md tells the conversation. Everything may be said twice.',
    scopes: ['launcher'],
    body: { schema: 'LauncherReport' },
    answers: { 200: { description: 'The orders.', content: { schema: 'LauncherAnswer' } } },
    errors: [400, 413, 503],
  },
];
