/** WebSocket close codes and what the worker does on each. */
export const CLOSE = {
  /** The work is finished: do not reconnect. */
  done: 1000,
  /** The queue received nothing from the worker for two ping periods; a worker that still lives dials again. */
  silent: 1001,
  /** The queue restarts: reconnect at once. */
  restarting: 1012,
  /** The token is not known: fatal, a retry cannot help. */
  unauthorized: 4401,
  /** The token is known but lacks the scope: fatal. */
  forbidden: 4403,
  /** Another worker registered with this id: the newer one wins, this one ends. */
  superseded: 4409,
  /** A frame was larger than the peer takes. */
  tooLarge: 4413,
} as const;

/** Returns whether dialling again with the same settings is pointless after a close. */
export function isFatalClose(code: number): boolean {
  return code === CLOSE.unauthorized || code === CLOSE.forbidden || code === CLOSE.superseded;
}
