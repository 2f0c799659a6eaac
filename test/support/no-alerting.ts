import type { Alerting } from '../../src/fleet/alerting.ts';

/** Alerting that tells nobody, and knows nobody who has acknowledged anything. */
export const NO_ALERTING: Alerting = {
  look: (problems) => problems.map((problem) => ({ ...problem, acknowledged: null })),
  acknowledge: () => null,
  heard: () => {},
  onAlarm: async () => {},
};
