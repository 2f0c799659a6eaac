import { expect, test } from 'vitest';
import { permissionsOf } from '../../../src/gateway/auth/permissions.ts';
import type { Env } from '../../../src/gateway/env.ts';
import { ownerOf } from '../../../src/gateway/inference/kept-responses.ts';
import { readRequest } from '../../../src/gateway/inference/read-request.ts';
import { readSubmission } from '../../../src/gateway/jobs/submissions.ts';
import { readRunpodSubmission } from '../../../src/gateway/runpod.ts';
import { playedObjects } from '../../support/objects.ts';

test.each(['resp_1', '%zz', '%'])(
  'a response that nobody has is not found, whatever its id: %s',
  async (id) => {
    const fleet = { ownerOfResponse: async () => null };
    const env: Env = { objects: playedObjects({ fleet: () => fleet }) };
    await expect(ownerOf(env, 'q', `/v1/responses/${id}`, null, null)).rejects.toMatchObject({ status: 404 });
  },
);

test.each([
  ['/v1/responses/resp_1', null],
  ['/v1/responses', 'resp_1'],
  ['/v1/responses/render', 'resp_1'],
])("another tenant's response is not found: %s, going on from %s", async (path, previousId) => {
  const fleet = { ownerOfResponse: async () => 'foreign' };
  const env: Env = { objects: playedObjects({ fleet: () => fleet }) };
  await expect(ownerOf(env, 'q', path, previousId, 'other')).rejects.toMatchObject({ status: 404 });
});

test.each([
  ['POST', '/v1/responses/resp_1/cancel', 'json'],
  ['POST', '/v1/responses', 'json'],
  ['GET', '/v1/responses/resp_1', null],
  ['DELETE', '/v1/responses/resp_1', null],
])('what the answer to %s %s may begin with is known before it is there: %s', async (method, path, kind) => {
  const fleet = { ownerOfResponse: async () => ({ worker_id: 'w' }) };
  const env: Env = { objects: playedObjects({ fleet: () => fleet }) };
  const head = { method, url: `http://here${path}`, headers: new Headers() };
  const incoming = { head, pathname: path, path, token: null, ownId: 'own' };
  const body = { bytes: new Uint8Array(), release: () => {} };
  expect(await readRequest(env, incoming, async () => body)).toMatchObject({ kind });
});

const went = { model: 'm', input: 'x', previous_response_id: 'resp_1' };
const made = { model: 'm', input: 'x', store: true };
const job = (job_type: string, payload: object) =>
  readSubmission({ job_type, config_id: 'c', payload }, permissionsOf(null, {}));

test.each([
  ['engine_request', { method: 'GET', path: '/v1/responses/resp_1' }],
  ['engine_request', { method: 'POST', path: '/v1/responses/resp_1/cancel' }],
  ['engine_request', { method: 'POST', path: '/v1/responses', body: JSON.stringify(went) }],
  ['engine_request', { method: 'POST', path: '/v1/responses', body_base64: btoa(JSON.stringify(went)) }],
  ['runpod', { input: { openai_route: '/v1/responses/resp_1' } }],
  ['runpod', { input: { openai_route: '/v1/responses', openai_input: went } }],
  ['runpod', { input: { route: '/v1/responses', body: went } }],
])('a stored job gets at no kept response: %s %j', (type, payload) => {
  expect(job(type, payload)).toMatchObject({
    status: 400,
    message: expect.stringContaining('not by jobs'),
  });
  if (type === 'runpod')
    expect(() => readRunpodSubmission(payload, 'id', 'm', permissionsOf(null, {}))).toThrow('not by jobs');
});

test.each([
  ['engine_request', { method: 'POST', path: '/v1/responses', body: JSON.stringify(made) }],
  ['runpod', { input: { openai_route: '/v1/responses', openai_input: made } }],
])('a stored job may make one: %s %j', (type, payload) => {
  expect(job(type, payload)).toMatchObject({ job_type: type });
});
