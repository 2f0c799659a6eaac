import { expect, it } from 'vitest';
import { FEATURE_ROUTES } from '../../../src/features/index.ts';
import { createApp } from '../../../src/gateway/app.ts';
import type { GatewayEnv, ServerSocket } from '../../../src/gateway/env.ts';
import { playedObjects } from '../../support/objects.ts';
import { until } from '../../support/poll.ts';
import { tokenEntry } from '../../support/token-entry.ts';

it('a program whose token is for certain models keeps its socket while the queue does not answer', async () => {
  const sent: string[] = [];
  const closed: unknown[] = [];
  let message: (data: string) => void = () => {};
  const socket = {
    listen: (ports: { message(data: string): void }) => {
      message = ports.message;
    },
    send: (text: string) => void sent.push(text),
    close: (...why: unknown[]) => void closed.push(why),
  };
  let isDown = false;
  const restarting = async () => {
    throw Object.assign(new Error('the object starts again'), { retryable: true });
  };
  const queue = () => ({
    aliases: async () => (isDown ? restarting() : {}),
    cancel: restarting,
    leaveListener: async () => {},
  });
  const env: GatewayEnv = {
    objects: playedObjects({
      queue,
      fleet: () => ({ tokens: async () => ({ version: 1, entries: [] }), tokenUses: async () => ({}) }),
    }),
    acceptUpgrade: () => ({ socket: socket as unknown as ServerSocket, response: new Response() }),
    TOKENS: JSON.stringify([tokenEntry('wv_app', ['submit'], { models: ['small'] })]),
  };
  const request = new Request('http://queue.example/api/jobs/socket', {
    headers: { upgrade: 'websocket', authorization: 'Bearer wv_app' },
  });
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} };
  expect((await createApp(FEATURE_ROUTES).fetch(request, env, context as never)).status).toBe(200);
  isDown = true;
  message(JSON.stringify({ type: 'nothing' }));
  await until(() => sent.length === 1, 'the first frame is answered');
  message(JSON.stringify({ type: 'nothing' }));
  await until(() => sent.length === 2, 'the second frame is answered');
  expect(closed).toEqual([]);
});
