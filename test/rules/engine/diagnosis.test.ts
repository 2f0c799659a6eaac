import { afterEach, expect, test } from 'vitest';
import { createEngineClient } from '../../../src/engine/client/client.ts';
import { diagnose } from '../../../src/engine/client/health.ts';
import { freePort } from '../../support/ports.ts';
import { clientOf, closeEngines, rawServer, tidy } from '../../support/small-engine.ts';

afterEach(closeEngines);

const PATHS = ['/health', '/v1/models'];

test('nothing is wrong with an engine that is healthy by the first route it has', async () => {
  const client = await clientOf((request, response) => {
    response.writeHead(request.url === '/v1/models' ? 200 : 404).end('{}');
  });
  expect(await diagnose(client, PATHS, 1000)).toBeNull();
});

test.each([
  [404, 'no_engine', 'it answers, but is no engine: GET /health and GET /v1/models are 404'],
  [301, 'no_engine', 'it answers, but is no engine: GET /health is 301'],
  [401, 'locked', 'it wants another key: GET /health is 401'],
  [503, 'unhealthy', 'it answers, but is not healthy: GET /health is 503'],
])('what answers %i', async (status, kind, problem) => {
  const client = await clientOf((_request, response) => {
    response.writeHead(status).end('nothing here');
  });
  expect(await diagnose(client, PATHS, 1000)).toEqual({ kind, problem });
});

test('what takes connections and says nothing', async () => {
  const client = await clientOf(() => {});
  expect(await diagnose(client, PATHS, 50)).toEqual({
    kind: 'unhealthy',
    problem: 'it takes connections, but does not answer within 0.05 s',
  });
});

test.each([
  ['SSH-2.0-x\r\n\r\n', 'it answers, but not in HTTP'],
  ['', 'it closes connections without an answer'],
])('what is no server of HTTP: %j', async (said, problem) => {
  const port = await rawServer((socket) => socket.once('data', () => socket.end(said)));
  const client = tidy(createEngineClient({ baseUrl: `http://127.0.0.1:${port}` }));
  expect(await diagnose(client, PATHS, 5000)).toEqual({ kind: 'no_engine', problem });
});

test('a port where nothing listens', async () => {
  const client = tidy(createEngineClient({ baseUrl: `http://localhost:${await freePort()}` }));
  expect(await diagnose(client, PATHS, 5000)).toEqual({ kind: 'unreachable', problem: 'connection refused' });
});

test('a name that no host has', async () => {
  const client = tidy(createEngineClient({ baseUrl: 'http://no-such-host.invalid:8000' }));
  expect(await diagnose(client, PATHS, 30_000)).toEqual({
    kind: 'unreachable',
    problem: expect.stringMatching(/host of this name|name of the host/),
  });
});
