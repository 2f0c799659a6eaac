import type { Alerting } from '../../src/fleet/alerting.ts';

/** Alerting that tells nobody, and knows nobody who has acknowledged anything. */
export const NO_ALERTING: Alerting = {
  look: (problems) => problems.map((problem) => ({ ...problem, acknowledged: null, muted_until: null })),
  acknowledge: () => null,
  heard: () => {},
  onAlarm: async () => {},
  view: () => ({ receivers: [], mutes: [] }),
  mute: () => null,
  endMute: () => null,
  test: async () => null,
};
