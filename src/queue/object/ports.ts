import type { HostSocket, ObjectHost } from '../../durable/host.ts';
import type { Connection, Ports } from '../store/ports.ts';
import type { Asks } from './env.ts';
import type { KeptOfWorker } from './sockets.ts';

interface PortParts extends Pick<Ports, 'tellFleet'> {
  objects: Pick<Asks, 'relay'>;
  connection(socket: HostSocket<KeptOfWorker>): Connection;
  /** Does something that leaves the object, once the work that wants it is done. */
  defer(effect: () => void): void;
}

/** Makes the ports of the rules from the host. */
export function portsOf(
  host: ObjectHost<KeptOfWorker>,
  { objects, connection, defer, tellFleet }: PortParts,
): Ports {
  const relayOf = (workerId: string) => objects.relay(host.queueId, workerId);
  /** Asks a relay, whose failure is ignored: a relay that cannot be reached has lost its streams. */
  const tell = (ask: () => Promise<void>) => defer(() => host.background(ask().catch(() => {})));
  return {
    sql: host.sql,
    alarm: host.alarm,
    undoable: (work) => {
      try {
        host.transaction(work);
        return null;
      } catch (error) {
        return String(error);
      }
    },
    now: () => host.now(),
    random: randomNumbers(),
    connections: () => host.sockets().map(connection),
    breakStream: (workerId, stream, reason) => tell(() => relayOf(workerId).breakStream(stream, reason)),
    closeAnswers: (workerId) => tell(() => relayOf(workerId).closeSockets()),
    tellFleet: (event) => defer(() => tellFleet(event)),
    log: host.log,
  };
}

/** Returns random numbers drawn in advance: a stored job takes eight, and drawing one costs as much as drawing many. */
function randomNumbers(): () => number {
  const words = new Uint32Array(256);
  let left = 0;
  return () => {
    if (left === 0) left = crypto.getRandomValues(words).length;
    left -= 1;
    return words[left]! / 2 ** 32;
  };
}
