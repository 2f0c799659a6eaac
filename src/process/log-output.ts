import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import pino from 'pino';

/** Bytes kept while the output takes none; what comes then is left out. */
const MOST_UNWRITTEN = 1024 ** 2;
/** A pipe whose reader stands still is tried again then, ms. */
const AGAIN_MS = 100;
/** How long a process that ends waits for such a reader, ms. */
const LAST_LINES_MS = 300;

const STDOUT = 1;

let output: { write(text: string): void } | null = null;

/**
 * Where this process writes its log, at once and in order. An output that takes nothing, such as a full disk or a pipe
 * without a reader, does not hold up the process: up to 1 MiB waits.
 */
export function logOutput(): { write(text: string): void } {
  output ??= openOutput();
  return output;
}

function openOutput() {
  const pipe = ownPipe();
  // In this thread: a transport thread would lose the last lines when the process exits.
  const destination = pino.destination({
    dest: pipe ?? STDOUT,
    sync: true,
    maxLength: MOST_UNWRITTEN,
    // It would sleep in between.
    retryEAGAIN: () => false,
  });
  let isHeldUp = false;
  const goOn = () => {
    isHeldUp = false;
    destination.write('');
  };
  destination.on('error', (error: NodeJS.ErrnoException) => {
    // What waits is written with the next line; a full disk has room again at no time that is known.
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
 * The pipe at the standard output, opened once more so that writing to it never blocks: the engine and the worker, which
 * inherit the first, know nothing of that. Null: the output is no pipe, or cannot be opened again.
 */
function ownPipe(): number | null {
  try {
    if (!fstatSync(STDOUT).isFIFO()) return null;
    const opened = openSync(`/proc/self/fd/${STDOUT}`, constants.O_WRONLY | constants.O_NONBLOCK);
    if (fstatSync(opened).isFIFO()) return opened;
    closeSync(opened);
  } catch {
    // Not Linux, or another user's pipe.
  }
  return null;
}
