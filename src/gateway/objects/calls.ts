import type {
  BatchesStub,
  FilesStub,
  FleetStub,
  KeptRequestsStub,
  Objects,
  QueueStub,
  ResponsesStub,
} from '../../asking/objects.ts';
import { isRestart, onceMore } from '../../asking/once-more.ts';
import { OTHER_VERSION } from '../../durable/ports.ts';
import { fieldsOf } from '../../protocol/index.ts';
import type { Env } from '../env.ts';
import { HttpError, retryAfter } from '../errors.ts';
import { log } from '../log.ts';

type Asking = Pick<Env, 'objects'>;

/**
 * Makes one call of an object. If the object restarts in the middle, it is called once more.
 * @throws HttpError 503 when the second call meets a restart too, or the object's database cannot be used
 */
type Call<Stub> = <T>(env: Asking, queueId: string, call: (stub: Stub) => Promise<T>) => Promise<T>;

/** Makes calls of the queue's own object. */
export const callQueue: Call<QueueStub> = callsOf('queue');

/** Makes calls of a queue's fleet object. */
export const callFleet: Call<FleetStub> = callsOf('fleet');

/** Makes calls of the object that knows the files and batches of a queue. */
export const callBatches: Call<BatchesStub> = callsOf('batches');

/** Makes calls of the object that holds the bytes of a queue's files. */
export const callFiles: Call<FilesStub> = callsOf('files');

/** Makes calls of the object that stores the responses and conversations of a queue. */
export const callResponses: Call<ResponsesStub> = callsOf('responses');

/** Makes calls of the object that keeps records of requests. */
export const callKeptRequests: Call<KeptRequestsStub> = callsOf('keptRequests');

function callsOf<Kind extends Exclude<keyof Objects, 'relay'>>(kind: Kind): Call<ReturnType<Objects[Kind]>> {
  return ({ objects }, queueId, call) =>
    answerOf(queueId, () => call(objects[kind](queueId) as ReturnType<Objects[Kind]>));
}

async function answerOf<T>(queueId: string, call: () => Promise<T>): Promise<T> {
  try {
    return await onceMore(call);
  } catch (error) {
    throw toldFault(error, queueId);
  }
}

/** Returns the error that callers get for an error of an object. */
export function toldFault(error: unknown, queueId: string): unknown {
  const fault = storageFault(error, queueId);
  if (fault) return fault;
  if (isRestart(error)) {
    const message = 'The queue is restarting; try again in a moment.';
    return new HttpError(503, message, 'queue_restarting', retryAfter(1));
  }
  if (fieldsOf(error).overloaded !== true) return error;
  const busy = 'The queue has too much to do; try again in a few seconds.';
  return new HttpError(503, busy, 'queue_overloaded', retryAfter(5));
}

/**
 * The faults that keep a queue from its database, and what callers are told of each. The text of the runtime's error
 * holds SQLite's code.
 */
const FAULTS: { pattern: RegExp; code: string; message: string; retrySeconds: number }[] = [
  {
    pattern: /SQLITE_FULL/,
    code: 'disk_full',
    message: "The disk of the queue's state is full: nothing is stored until there is room again.",
    retrySeconds: 30,
  },
  {
    pattern: new RegExp(OTHER_VERSION),
    code: 'state_version',
    message:
      "The queue's state was written by another version of worker-vllm than the one that runs here. Its operator has to start that version again, or this one on another state: docs/upgrading.md.",
    retrySeconds: 300,
  },
  {
    pattern: /SQLITE_(CORRUPT|NOTADB)/,
    code: 'state_damaged',
    message:
      'The queue\'s state is damaged; "worker-vllm state check" on its machine says what can be saved.',
    retrySeconds: 300,
  },
  {
    pattern: /SQLITE_(IOERR|CANTOPEN|READONLY|PERM)/,
    code: 'state_unreadable',
    message: "The queue's state cannot be read or written; the log of its machine says why.",
    retrySeconds: 30,
  },
  {
    pattern: /JOURNAL_UNREACHABLE/,
    code: 'journal_unreachable',
    message:
      'The queue cannot reach its journal, and accepts nothing until it can; what it accepted before is kept.',
    retrySeconds: 2,
  },
  {
    // Cloudflare reports no more than this of a database that cannot even be opened.
    pattern: /^internal error; reference = /,
    code: 'queue_failed',
    message: 'The queue cannot be reached in its process; the log of its machine says why.',
    retrySeconds: 5,
  },
];

/** The same fault is logged once in this many ms: each request meets it again. */
const LOG_EVERY_MS = 60_000;
const loggedAt = new Map<string, number>();

/** Logs that a queue's database failed and returns the error for callers; returns null for any other failure. */
function storageFault(error: unknown, queueId: string): HttpError | null {
  const { message = '' } = error as Partial<Error>;
  const fault = FAULTS.find(({ pattern }) => pattern.test(message));
  if (!fault) return null;
  const key = `${fault.code} ${queueId}`;
  if (Date.now() - (loggedAt.get(key) ?? 0) >= LOG_EVERY_MS) {
    loggedAt.set(key, Date.now());
    log('error', fault.message, { queue_id: queueId, error: message });
  }
  return new HttpError(503, fault.message, fault.code, retryAfter(fault.retrySeconds));
}
