import type {
  BatchesStub,
  FilesStub,
  FleetStub,
  Objects,
  QueueStub,
  RelayStub,
} from '../../asking/objects.ts';
import { relayName } from '../../relay/calls.ts';
import { answerRequest, upgradeTelling } from './crossing.ts';
import { askForWorker } from './request-crossing.ts';

/** The namespaces of the objects. */
export interface ObjectBindings {
  QUEUE: DurableObjectNamespace;
  RELAY: DurableObjectNamespace;
  FLEET: DurableObjectNamespace;
  BATCHES: DurableObjectNamespace;
  FILE: DurableObjectNamespace;
}

/** Returns the objects, each a Durable Object: called by RPC, or by `fetch` if RPC cannot carry it (crossing.ts). */
export function objectsOf({ QUEUE, RELAY, FLEET, BATCHES, FILE }: ObjectBindings): Objects {
  return {
    queue: (queueId) =>
      stubWith<QueueStub, 'request' | 'connect'>(QUEUE.getByName(queueId), (queue) => ({
        request: (job) => askForWorker(queue, job),
        connect: (dial, upgrade) => queue.fetch(upgradeTelling(upgrade, dial)),
      })),
    fleet: (queueId) =>
      stubWith<FleetStub, 'watch'>(FLEET.getByName(queueId), (fleet) => ({
        watch: (opened, upgrade) => fleet.fetch(upgradeTelling(upgrade, opened)),
      })),
    batches: (queueId) => BATCHES.getByName(queueId) as unknown as BatchesStub,
    files: (queueId) =>
      stubWith<FilesStub, 'content'>(FILE.getByName(queueId), (files) => ({
        content: (fileId) => files.fetch(`https://files/${fileId}`),
      })),
    relay: (queueId, workerId) =>
      stubWith<RelayStub, 'connect' | 'open' | 'openReplay'>(
        RELAY.getByName(relayName(queueId, workerId)),
        (relay) => ({
          connect: (upgrade) => relay.fetch(upgradeTelling(upgrade, null)),
          open: (stream, more, asked) => relay.fetch(answerRequest({ stream, more, asked, isReplay: false })),
          openReplay: (stream, more, signal) =>
            relay.fetch(answerRequest({ stream, more, asked: null, isReplay: true }, signal)),
        }),
      ),
  };
}

/** Returns a stub whose calls go by RPC but for those of `make`: a proxy, since a stub has a method of every name. */
function stubWith<Stub extends object, Name extends keyof Stub>(
  stub: DurableObjectStub,
  make: (stub: DurableObjectStub) => Pick<Stub, Name>,
): Stub {
  const own = make(stub);
  return new Proxy(stub, {
    get: (stub, name) => (name in own ? own[name as Name] : Reflect.get(stub, name)),
  }) as unknown as Stub;
}
