import { withTimeLeft } from '../../../asking/attempt-loop.ts';
import type {
  BatchesStub,
  FilesStub,
  FleetStub,
  KeptRequestsStub,
  Objects,
  QueueStub,
  RelayStub,
  ResponsesStub,
} from '../../../asking/objects.ts';
import type { RequestAnswer, SettledJobs, WaitingRequest } from '../../../queue/rpc.ts';
import type { Bodies } from './bodies.ts';
import { type Link, LinkBroke } from './link.ts';
import { AWAY_MS, type Kind } from './messages.ts';
import type { Pipes } from './pipes.ts';

interface StubParts {
  link: Link;
  bodies: Bodies;
  pipes: Pipes;
  /** Returns the relay of a worker in this process. */
  relay(queueId: string, workerId: string): RelayStub;
}

/**
 * Makes the objects as a gateway process sees them: the owner's over the link, and relays of its own. The answers of
 * stored jobs are at the owner's relays.
 */
export function linkedObjects({ link, bodies, pipes, relay }: StubParts): Objects {
  const calls = (kind: Kind, queueId: string) => new Proxy({}, new Calls(link, kind, queueId)) as never;
  return {
    queue: (queueId) =>
      Object.assign(Object.create(calls('queue', queueId)) as QueueStub, {
        request: (wanted: WaitingRequest) => request(link, queueId, wanted),
        nextSettled: (listener: string, waitMs: number) => nextSettled(link, queueId, listener, waitMs),
        connect: pipes.control(queueId),
      }),
    fleet: (queueId) =>
      Object.assign(Object.create(calls('fleet', queueId)) as FleetStub, {
        watch: pipes.viewer(queueId),
        // The owner tells the audit of its tokens itself.
        auditFileTokens: async () => {},
      }),
    batches: (queueId) => calls('batches', queueId) as BatchesStub,
    files: (queueId) =>
      Object.assign(Object.create(calls('files', queueId)) as FilesStub, {
        content: (id: string) => bodies.file(queueId, id),
      }),
    responses: (queueId) => calls('responses', queueId) as ResponsesStub,
    keptRequests: (queueId) => calls('keptRequests', queueId) as KeptRequestsStub,
    relay: (queueId, workerId) => ({
      ...relay(queueId, workerId),
      openReplay: (stream, more, signal) => bodies.replay(queueId, workerId, stream, more, signal),
    }),
  };
}

/** Gives a stub every method that its object may have; the owner knows which there are. */
class Calls implements ProxyHandler<object> {
  readonly #link: Link;
  readonly #kind: Kind;
  readonly #queueId: string;

  constructor(link: Link, kind: Kind, queueId: string) {
    this.#link = link;
    this.#kind = kind;
    this.#queueId = queueId;
  }

  get(_target: object, name: string | symbol): unknown {
    // A stub that had `then` would be taken for a promise.
    if (typeof name === 'symbol' || name === 'then') return undefined;
    return (...asked: unknown[]) => this.#link.call(this.#kind, this.#queueId, name, asked);
  }
}

/**
 * Asks the queue for a worker, over several links where one after another breaks: the queue keeps no waiting request
 * over a restart, and the caller still waits.
 */
async function request(link: Link, queueId: string, wanted: WaitingRequest): Promise<RequestAnswer> {
  const startedAt = performance.now();
  let firstLostAt: number | null = null;
  while (true) {
    try {
      await link.whenLinked();
      const asked = { ...withTimeLeft(wanted, performance.now() - startedAt), home: link.home };
      return (await link.call('queue', queueId, 'request', [asked])) as RequestAnswer;
    } catch (error) {
      const now = performance.now();
      firstLostAt ??= now;
      if (!(error instanceof LinkBroke) || now - firstLostAt >= AWAY_MS) throw error;
    }
  }
}

/**
 * Asks for the jobs that have settled for a listener. The queue tells each once, perhaps in an answer that was lost
 * with the link: so it forgets the listener, which names its jobs again.
 */
async function nextSettled(
  link: Link,
  queueId: string,
  listener: string,
  waitMs: number,
): Promise<SettledJobs> {
  try {
    return (await link.call('queue', queueId, 'nextSettled', [listener, waitMs])) as SettledJobs;
  } catch (error) {
    if (!(error instanceof LinkBroke)) throw error;
    await link.call('queue', queueId, 'leaveListener', [listener]);
    return { listener: 'unknown', jobs: [] };
  }
}
