import { beforeEach, expect, it } from 'vitest';
import type { Objects } from '../../../../src/asking/objects.ts';
import { HeldRelays } from '../../../../src/host/node/answers/held-relays.ts';
import { RemotePort } from '../../../../src/host/node/answers/remote-port.ts';
import { CLOSE } from '../../../../src/protocol/index.ts';

/** The relays of a home, and the links by which it has the sockets of two ports. */
let held: HeldRelays;
let now: number;
beforeEach(() => {
  now = 100_000;
  held = new HeldRelays({ reconnect_grace_seconds: 10 }, {} as Objects, { now: () => now, after: () => {} });
});

function link() {
  const sent: unknown[] = [];
  const send = (message: string | Uint8Array) => {
    if (typeof message === 'string') sent.push(JSON.parse(message));
  };
  const port = new RemotePort({ send, close: () => {} }, held);
  const open = (channel: number, age_ms: number) =>
    port.message(JSON.stringify({ type: 'open', channel, queue_id: 'q', worker_id: 'w', age_ms }));
  return { sent, port, open };
}

it('goes by the newest socket of a worker, whichever port tells of it first', () => {
  const [one, two] = [link(), link()];
  one.open(0, 0);
  two.open(5, 20_000);
  expect([one.sent, two.sent]).toMatchObject([[], [{ type: 'close', channel: 5, code: CLOSE.superseded }]]);
  now += 1000;
  two.open(6, 10);
  expect(one.sent).toMatchObject([{ type: 'close', channel: 0, code: CLOSE.superseded }]);
});

it('has no socket of a port whose link is lost', () => {
  const { port, open } = link();
  open(0, 0);
  expect(held.of('q', 'w').isConnected).toBe(true);
  port.closed();
  expect(held.of('q', 'w').isConnected).toBe(false);
});
