import type { Storage } from './ports.ts';

/** Something must be looked at by then: moves the alarm only if it is set later, since a move costs a row. */
export function due({ alarm }: Pick<Storage, 'alarm'>, atMs: number): void {
  const armed = alarm.get();
  if (armed === null || armed > atMs) alarm.set(atMs);
}
