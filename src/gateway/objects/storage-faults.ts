import { OTHER_VERSION } from '../../durable/ports.ts';
import { HttpError, retryAfter } from '../errors.ts';
import { log } from '../log.ts';

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
export function storageFault(error: unknown, queueId: string): HttpError | null {
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
