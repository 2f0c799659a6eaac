/** The longest timer of Node, ms: a longer one fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export interface Later {
  cancel(): void;
}

/** Runs something once, after any number of ms. */
export function later(ms: number, run: () => void): Later {
  let timer: NodeJS.Timeout;
  const wait = (left: number) => {
    const part = Math.min(left, LONGEST_TIMER_MS);
    timer = setTimeout(() => (left > part ? wait(left - part) : run()), part);
  };
  wait(ms);
  return { cancel: () => clearTimeout(timer) };
}
