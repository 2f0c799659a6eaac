/** npm and terminals deliver one Ctrl-C twice: the same signal again within this time counts as one, ms. */
const SAME_SIGNAL_MS = 300;

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/**
 * Listens for signals that ask the process to end.
 * @returns stops listening
 */
export function onEndSignals(first: () => void, second: () => void): () => void {
  let last: { name: NodeJS.Signals; at: number } | null = null;
  const onSignal = (name: NodeJS.Signals) => {
    const at = performance.now();
    if (last?.name === name && at - last.at < SAME_SIGNAL_MS) return;
    const isFirst = last === null;
    last = { name, at };
    if (isFirst) first();
    else second();
  };
  for (const name of SIGNALS) process.on(name, onSignal);
  return () => {
    for (const name of SIGNALS) process.off(name, onSignal);
  };
}
