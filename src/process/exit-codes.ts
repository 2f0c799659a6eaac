/** Exit codes of every command, listed for operators in docs/troubleshooting.md. */
export const EXIT = {
  ok: 0,
  /** A bug of this project, or a failure of no known class. */
  unexpected: 1,
  /** Bad configuration or command line, for this project or the engine. */
  configuration: 2,
  /** The engine's program is not installed. */
  engineMissing: 3,
  /** The engine never became healthy; another start may succeed. */
  engineFailedToStart: 4,
  /** The engine was healthy and ended although nobody asked it to. */
  engineDied: 5,
  /** The queue denied the token, or another worker took over this worker's id. */
  deniedByQueue: 6,
  /** A port is in use. */
  portInUse: 7,
  /** The machine cannot run the engine: no GPU, a driver too old, hardware errors. Retrying on it is useless. */
  badHost: 8,
  /** The model does not exist, may not be read, or cannot be loaded. */
  badModel: 9,
  /** The GPU or the machine does not have enough memory. */
  outOfMemory: 10,
  /** The state folder is damaged, or was written by another version. */
  badState: 11,
  /** The worker has not reached its queue for longer than `WORKER_QUEUE_LOST_SECONDS`. */
  queueLost: 12,
  /** Another process has become the owner of the journal that this queue wrote. */
  replaced: 13,
  /** The queue could not reach its journal when it started; another start may succeed. */
  journalUnreachable: 14,
  /** A second signal ended the process before its shutdown was complete. */
  forced: 130,
} as const;

/**
 * A mistake the user can fix: only the message is shown, without a stack, and the process exits.
 * The message names the cause and the next step.
 */
export class UserError extends Error {
  readonly exitCode: number;
  constructor(message: string, exitCode: number = EXIT.configuration) {
    super(message);
    this.name = 'UserError';
    this.exitCode = exitCode;
  }
}
