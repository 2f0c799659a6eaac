import { machineTime } from '../../durable/machine-time.ts';
import { sqlOf } from '../../durable/storage.ts';
import type { RelayCalls } from '../../relay/calls.ts';
import type { Connection, Ports } from '../store/ports.ts';
import type { Relays } from './relays.ts';

interface PortParts extends Pick<Ports, 'alarm' | 'tellFleet' | 'log'> {
  connection(socket: WebSocket): Connection;
  /** Null: they have objects of their own. */
  relays: Relays | null;
  /** Does something that leaves the object once the work that asks for it is through. */
  defer(effect: () => void): void;
}

/** The ports of the rules, made of the runtime. */
export function portsOf(
  ctx: DurableObjectState,
  { RELAY }: { RELAY: DurableObjectNamespace },
  { alarm, connection, relays, defer, tellFleet, log }: PortParts,
): Ports {
  const sql = sqlOf(ctx.storage);
  return {
    sql,
    alarm,
    undoable: (work) => {
      try {
        ctx.storage.transactionSync(work);
        return null;
      } catch (error) {
        return String(error);
      }
    },
    now: () => Date.now(),
    machineTime: () => machineTime(sql),
    random: randomNumbers(),
    connections: () => ctx.getWebSockets().map(connection),
    breakStream: (relay, stream, reason) => {
      if (relays) return defer(() => relays.named(relay).breakStream(stream, reason));
      const stub = RELAY.get(RELAY.idFromName(relay)) as unknown as RelayCalls;
      defer(() => ctx.waitUntil(stub.breakStream(stream, reason).catch(() => {})));
    },
    closeAnswers: (relay) => {
      if (relays) return defer(() => relays.named(relay).closeSocket());
      const stub = RELAY.get(RELAY.idFromName(relay)) as unknown as RelayCalls;
      defer(() => ctx.waitUntil(stub.closeSockets().catch(() => {})));
    },
    tellFleet: (event) => defer(() => tellFleet(event)),
    log,
  };
}

/** Drawn in advance: a stored job takes eight numbers, and a call for one costs as much as a call for many. */
function randomNumbers(): () => number {
  const words = new Uint32Array(256);
  let left = 0;
  return () => {
    if (left === 0) left = crypto.getRandomValues(words).length;
    left -= 1;
    return words[left]! / 2 ** 32;
  };
}
