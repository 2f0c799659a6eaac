import type { Clock, Pace } from './scheduler.ts';

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => performance.now(),
  schedule: (delayMs, callback) => {
    if (delayMs <= 0) {
      const immediate = setImmediate(callback);
      return () => clearImmediate(immediate);
    }
    const timer = setTimeout(callback, Math.ceil(delayMs));
    return () => clearTimeout(timer);
  },
};

/** @throws Error naming the setting that is wrong */
export function setPace(pace: Pace, values: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(values)) {
    if (!Object.hasOwn(pace, name)) {
      throw new Error(`unknown setting '${name}': there are ${Object.keys(pace).join(', ')}`);
    }
    if (typeof value !== 'number' || !(value >= 0)) {
      throw new Error(`${name}: expected milliseconds, got ${JSON.stringify(value)}`);
    }
  }
  Object.assign(pace, values);
}
