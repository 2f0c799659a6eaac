import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { bodyOf } from './request-body.ts';

export type Asked = Record<string, unknown> & { stage: 'before' | 'after' };

/** A receiver of hooks that a test decides for. */
export interface HookReceiver {
  url: string;
  asked: Asked[];
  /** The verdict on the next calls, or the status of an error; null: no answer comes. */
  decide: (asked: Asked) => object | number | null;
  stop(): Promise<void>;
}

export async function startHookReceiver(decide: HookReceiver['decide']): Promise<HookReceiver> {
  const server = createServer(async (request, response) => {
    const sent = await bodyOf(request);
    if (sent === null) return;
    const asked = JSON.parse(sent) as Asked;
    receiver.asked.push(asked);
    const verdict = receiver.decide(asked);
    if (typeof verdict === 'number') response.writeHead(verdict).end();
    else if (verdict !== null) response.writeHead(200).end(JSON.stringify(verdict));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const receiver: HookReceiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: [],
    decide,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return receiver;
}
