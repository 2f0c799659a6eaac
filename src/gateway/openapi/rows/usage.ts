import type { RouteRow } from '../types.ts';

const keys = {
  tenant: { description: 'Only what was counted for this tenant.' },
  token_name: { description: 'Only what jobs of this token used.' },
  config_id: { description: 'Only of this config.' },
  model: { description: 'Only of this model, by the name that its engine has for it.' },
  mode: { description: 'Only of requests, or of stored jobs.', enum: ['transient', 'persisted'] },
};

/** What was used. */
export const usage: RouteRow[] = [
  {
    method: 'GET',
    path: '/api/usage',
    tag: 'Metrics and usage',
    summary: 'Tokens and requests by day or hour (UTC)',
    scopes: ['submit', 'read'],
    query: {
      days: { description: 'So many days up to the end, 7 unless given, at most 400.', type: 'integer' },
      since: { description: 'From then on, in place of days: ISO time, or epoch seconds.' },
      until: { description: 'Before then; now unless given.' },
      width: { description: 'Day unless given. Hours are kept for 14 days.', enum: ['day', 'hour'] },
      group_by: { description: `Some of ${Object.keys(keys).join(', ')}, separated by commas.` },
      ...keys,
    },
    answers: { 200: { description: 'The sums, and those of all.', content: { schema: 'Usage' } } },
    errors: [400, 503],
  },
  {
    method: 'GET',
    path: '/v1/organization/usage/completions',
    tag: 'Metrics and usage',
    summary: 'The same in the form of OpenAI: project_id is the tenant, api_key_id the name of the token',
    scopes: ['submit', 'read'],
    query: {
      start_time: { description: 'Epoch seconds, inclusive.', type: 'integer' },
      end_time: { description: 'Epoch seconds, exclusive; now unless given.', type: 'integer' },
      bucket_width: { description: '1d unless given.', enum: ['1h', '1d'] },
      group_by: { description: 'Some of project_id, api_key_id, model; may be repeated.' },
      project_ids: { description: 'Only these tenants.' },
      api_key_ids: { description: 'Only tokens of these names.' },
      models: { description: 'Only these models.' },
      batch: { description: 'true: only lines of batches; false: only the rest.' },
      limit: { description: 'Buckets of a page: 7 days or 24 hours, at most 31 or 168.', type: 'integer' },
      page: { description: 'The next_page of the page before.' },
    },
    answers: { 200: { description: 'A page.', content: { schema: 'UsagePage' } } },
    errors: [400, 503],
  },
];
