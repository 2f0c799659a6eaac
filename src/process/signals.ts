import { closeSync, openSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Signals that ask a process to end. */
export const END_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** npm forwards a Ctrl-C that the terminal has already delivered: within this time, ms, the two count as one. */
const SAME_SIGNAL_MS = 300;

/** A signal and when it came, ms on a monotonic clock. */
export interface ReceivedSignal {
  name: string;
  at: number;
}

/** Returns whether the second signal is the first one delivered again, and not a user who insists. */
export function isSameSignal(last: ReceivedSignal, next: ReceivedSignal): boolean {
  return last.name === next.name && next.at - last.at < SAME_SIGNAL_MS;
}

/** The signals to end: the first asks for an orderly shutdown, the second for an immediate end. */
export interface EndSignals {
  first: Promise<NodeJS.Signals>;
  second: Promise<NodeJS.Signals>;
  /** Stops listening: signals have their default effect again. */
  release(): void;
}

/**
 * Listens for signals until released.
 * @param reload if given, SIGHUP calls it, and ends the process only when the terminal it was started in is gone
 */
export function endSignals(
  now: () => number = () => performance.now(),
  reload: (() => void) | null = null,
): EndSignals {
  const first = Promise.withResolvers<NodeJS.Signals>();
  const second = Promise.withResolvers<NodeJS.Signals>();
  let last: ReceivedSignal | undefined;
  const hadTerminal = reload !== null && hasTerminal();
  const onSignal = (name: NodeJS.Signals) => {
    if (name === 'SIGHUP' && reload !== null && hasTerminal() === hadTerminal) return reload();
    const next = { name, at: now() };
    if (last && isSameSignal(last, next)) return;
    if (last) second.resolve(name);
    else first.resolve(name);
    last = next;
  };
  for (const name of END_SIGNALS) process.on(name, onSignal);
  return {
    first: first.promise,
    second: second.promise,
    release: () => {
      for (const name of END_SIGNALS) process.off(name, onSignal);
    },
  };
}

/** A Ctrl-C ends the children too; this process may learn of their end up to this many ms before its own signal. */
const HEARD_WITHIN_MS = 200;

/**
 * Waits for something to start.
 * @returns the signal, if one came first and ended the start, which then has not failed
 */
export async function unlessSignalled<T>(
  starting: Promise<T>,
  { first }: Pick<EndSignals, 'first'>,
): Promise<T | NodeJS.Signals> {
  try {
    return await starting;
  } catch (error) {
    const signal = await Promise.race([first, sleep(HEARD_WITHIN_MS, null)]);
    if (signal === null) throw error;
    return signal;
  }
}

/** Returns whether a terminal can end this process: it has none after the terminal hung up. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'));
    return true;
  } catch {
    return false;
  }
}
