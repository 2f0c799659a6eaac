/** What the scheduler and the command line have to know about a driver; its code is in src/providers. */
interface DriverFacts {
  /** Its machines are only to be reached from the launcher's own machine: orders for them stay there. */
  isBoundToHost: boolean;
  /**
   * Its machines are paid for by the hour, and only the provider knows how much: where there is a budget, nothing is
   * launched before it has told. The others are one's own and cost nothing unless the file says so.
   */
  tellsPrices: boolean;
  /** The variable that usually holds its key, where it needs one. */
  keyVariable: string | null;
}

/** Every driver that a fleet's file may name: a spec whose driver is missing here does not compile. */
export const DRIVERS = {
  process: { isBoundToHost: true, tellsPrices: false, keyVariable: null },
  docker: { isBoundToHost: true, tellsPrices: false, keyVariable: null },
  kubernetes: { isBoundToHost: false, tellsPrices: false, keyVariable: null },
  runpod: { isBoundToHost: false, tellsPrices: true, keyVariable: 'RUNPOD_API_KEY' },
  vast: { isBoundToHost: false, tellsPrices: true, keyVariable: 'VAST_API_KEY' },
  dstack: { isBoundToHost: false, tellsPrices: true, keyVariable: 'DSTACK_TOKEN' },
} as const satisfies Record<string, DriverFacts>;

export type DriverName = keyof typeof DRIVERS;
