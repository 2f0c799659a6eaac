import { expect, it } from 'vitest';
import { FEATURE_ROUTES } from '../../../src/features/index.ts';
import { createApp } from '../../../src/gateway/app.ts';
import type { GatewayEnv } from '../../../src/gateway/env.ts';
import type { RequestAnswer, WaitingRequest } from '../../../src/queue/rpc.ts';
import { acceptNothing, playedObjects } from '../../support/objects.ts';
import { until } from '../../support/poll.ts';

it('the queue can read the payload of a caller that is gone until it has answered', async () => {
  const answer = Promise.withResolvers<RequestAnswer>();
  const asked: WaitingRequest[] = [];
  const cancelled: string[] = [];
  const queue = {
    request: (job: WaitingRequest) => {
      asked.push(job);
      return answer.promise;
    },
    cancel: async (id: string) => void cancelled.push(id),
  };
  const env: GatewayEnv = { objects: playedObjects({ queue: () => queue }), acceptUpgrade: acceptNothing };
  const hangUp = new AbortController();
  const request = new Request('http://localhost/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    // Shorter ones are left to the collector.
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x'.repeat(100_000) }] }),
    signal: hangUp.signal,
  });
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} };
  const answered = createApp(FEATURE_ROUTES).fetch(request, env, context as never);
  const { payload } = await until(() => asked[0], 'it is asked');
  hangUp.abort();
  await until(() => cancelled.length === 1, 'it is cancelled');
  expect((await answered).status).toBe(499);
  expect(payload.length).toBeGreaterThan(100_000);
  answer.resolve({ kind: 'refused', reason: 'cancelled', message: '', retry_after_seconds: 1 });
  await until(() => payload.length === 0, 'it is freed');
});
