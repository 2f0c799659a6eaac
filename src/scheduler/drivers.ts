/** The facts about a driver that the scheduler and the command line have to know; its code is in src/providers. */
interface DriverFacts {
  /**
   * Whether only the launcher's own machine can reach the driver's machines; orders for them then stay with that
   * launcher.
   */
  isBoundToHost: boolean;
  /**
   * Whether the driver's machines are paid for by the hour, and only the provider knows the price: if there is a
   * budget, nothing is launched before the provider has reported the price. Other drivers' machines belong to the
   * operator and cost nothing unless the file says so.
   */
  tellsPrices: boolean;
  /** Whether the driver's machines pull their image from a registry, so that a pool has to name one. */
  pullsImage: boolean;
  /** Whether the driver can launch spot machines. */
  hasSpot: boolean;
  /** The variable that usually holds the driver's key; null if the driver needs none. */
  keyVariable: string | null;
}

/** The facts of every driver that a fleet's file may name: a spec whose driver is missing here does not compile. */
export const DRIVERS = {
  process: { isBoundToHost: true, tellsPrices: false, pullsImage: false, hasSpot: false, keyVariable: null },
  docker: { isBoundToHost: true, tellsPrices: false, pullsImage: false, hasSpot: false, keyVariable: null },
  kubernetes: {
    isBoundToHost: false,
    tellsPrices: false,
    pullsImage: true,
    hasSpot: true,
    keyVariable: null,
  },
  runpod: {
    isBoundToHost: false,
    tellsPrices: true,
    pullsImage: true,
    // Version 2 of RunPod's REST API rents no spot pods.
    hasSpot: false,
    keyVariable: 'RUNPOD_API_KEY',
  },
  vast: {
    isBoundToHost: false,
    tellsPrices: true,
    pullsImage: true,
    hasSpot: true,
    keyVariable: 'VAST_API_KEY',
  },
  dstack: {
    isBoundToHost: false,
    tellsPrices: true,
    pullsImage: true,
    hasSpot: true,
    keyVariable: 'DSTACK_TOKEN',
  },
} as const satisfies Record<string, DriverFacts>;

export type DriverName = keyof typeof DRIVERS;
