import type { Storage } from './ports.ts';

/** Sets the alarm for this time unless it is set earlier: a move of the alarm costs a row. */
export function due({ alarm }: Pick<Storage, 'alarm'>, atMs: number): void {
  const armed = alarm.get();
  if (armed === null || armed > atMs) alarm.set(atMs);
}
