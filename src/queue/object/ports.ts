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

/** What the rules are given of the runtime. */
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
    random: () => (crypto.getRandomValues(new Uint32Array(1))[0] as number) / 2 ** 32,
    connections: () => ctx.getWebSockets().map(connection),
    breakStream: (relay, stream, reason) => {
      if (relays) return defer(() => relays.named(relay).breakStream(stream, reason));
      const stub = RELAY.get(RELAY.idFromName(relay)) as unknown as RelayCalls;
      defer(() => ctx.waitUntil(stub.breakStream(stream, reason).catch(() => {})));
    },
    tellFleet: (event) => defer(() => tellFleet(event)),
    log,
  };
}
