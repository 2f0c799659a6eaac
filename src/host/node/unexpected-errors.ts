import type { Log } from '../../durable/host.ts';

/**
 * Logs errors that nothing has caught, unhandled rejections too: one of one task must not end all others.
 * @returns a function that leaves them to the runtime again
 */
export function logUnexpectedErrors(log: Log): () => void {
  process.setUncaughtExceptionCaptureCallback((error: unknown) =>
    log('error', 'something failed unexpectedly', { error: (error as Error)?.stack ?? String(error) }),
  );
  return () => process.setUncaughtExceptionCaptureCallback(null);
}
