/** WebSocket close codes and what the worker does on each. */
export const CLOSE = {
  /** Finished: do not reconnect. */
  done: 1000,
  /** Nothing was heard of the worker for two ping periods: should it live, it dials again. */
  silent: 1001,
  /** The queue restarts: reconnect at once. */
  restarting: 1012,
  /** The token is not known: fatal, a retry cannot help. */
  unauthorized: 4401,
  /** The token is known but lacks the scope: fatal. */
  forbidden: 4403,
  /** Another worker registered with this id; the newer one wins, this one ends. */
  superseded: 4409,
  /** A frame was larger than the peer takes. */
  tooLarge: 4413,
} as const;

/** Closes after which dialling again with the same settings is pointless. */
export function isFatalClose(code: number): boolean {
  return code === CLOSE.unauthorized || code === CLOSE.forbidden || code === CLOSE.superseded;
}
