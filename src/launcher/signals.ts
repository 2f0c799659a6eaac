/** npm forwards a Ctrl-C that the terminal has already delivered: both count as one, ms. */
const SAME_SIGNAL_MS = 300;

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** The wish of the user to end: in order, and when that takes too long, at once. */
export interface EndSignals {
  first: Promise<NodeJS.Signals>;
  second: Promise<NodeJS.Signals>;
  /** Signals act as if nobody listened. */
  release(): void;
}

/** Listens for signals until released. */
export function endSignals(now: () => number = () => performance.now()): EndSignals {
  const first = Promise.withResolvers<NodeJS.Signals>();
  const second = Promise.withResolvers<NodeJS.Signals>();
  let last: { signal: NodeJS.Signals; at: number } | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    const at = now();
    if (last?.signal === signal && at - last.at < SAME_SIGNAL_MS) return;
    if (last) second.resolve(signal);
    else first.resolve(signal);
    last = { signal, at };
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return {
    first: first.promise,
    second: second.promise,
    release: () => {
      for (const signal of SIGNALS) process.off(signal, onSignal);
    },
  };
}
