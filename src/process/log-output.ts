import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import pino from 'pino';

/** The most bytes that wait while the output takes none; further lines are dropped. */
const MOST_UNWRITTEN = 1024 ** 2;
/** A pipe whose reader stands still is tried again after this many ms. */
const AGAIN_MS = 100;
/** A process that ends waits at most this many ms for a reader that stands still. */
const LAST_LINES_MS = 300;

const STDOUT = 1;

let output: { write(text: string): void } | null = null;

/**
 * Returns the output to which this process writes its log, at once and in order. If it takes nothing, as a full disk or
 * a pipe without a reader, the process goes on: up to 1 MiB waits.
 */
export function logOutput(): { write(text: string): void } {
  output ??= openOutput();
  return output;
}

function openOutput() {
  const pipe = ownPipe();
  // The lines are written in this thread: a transport thread would lose the last ones when the process exits.
  const destination = pino.destination({
    dest: pipe ?? STDOUT,
    sync: true,
    maxLength: MOST_UNWRITTEN,
    // pino would sleep between its own tries.
    retryEAGAIN: () => false,
  });
  let isHeldUp = false;
  const goOn = () => {
    isHeldUp = false;
    destination.write('');
  };
  destination.on('error', (error: NodeJS.ErrnoException) => {
    // Waiting bytes are written with the next line: nobody knows when a full disk has room again.
    if (error.code !== 'EAGAIN') return;
    if (!isHeldUp) setTimeout(goOn, AGAIN_MS).unref();
    isHeldUp = true;
  });
  if (pipe !== null) {
    process.on('exit', () => {
      const until = performance.now() + LAST_LINES_MS;
      while (isHeldUp && performance.now() < until) {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
        goOn();
      }
    });
  }
  return destination;
}

/**
 * Opens the pipe at the standard output once more, so that writing to it never blocks: the engine and the worker
 * inherit the first descriptor, which stays blocking. Returns null if the output is no pipe, or cannot be opened again.
 */
function ownPipe(): number | null {
  try {
    if (!fstatSync(STDOUT).isFIFO()) return null;
    const opened = openSync(`/proc/self/fd/${STDOUT}`, constants.O_WRONLY | constants.O_NONBLOCK);
    if (fstatSync(opened).isFIFO()) return opened;
    closeSync(opened);
  } catch {
    // The system is not Linux, or the pipe is another user's.
  }
  return null;
}
