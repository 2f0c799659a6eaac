import type {
  FleetView,
  LaunchRow,
  PoolRow,
  PoolScaling,
  PoolVersion,
} from '../../../../src/protocol/index.ts';
import { FleetHarness } from '../../../support/fleet-harness.ts';
import { pool } from '../../../support/queue-share.ts';

const NOW = Date.UTC(2026, 0, 5, 12);

export function scalingOf(given: Partial<PoolScaling> = {}): PoolScaling {
  return {
    wanted: 0,
    min: 0,
    max: 3,
    ready: 0,
    starting: 0,
    draining: 0,
    waiting: 0,
    price_per_hour: 0,
    spent_today: 0,
    batch_wait: null,
    decision: null,
    control: 'automatic',
    breaker: null,
    rollout: null,
    spot: null,
    versions: [],
    ...given,
  };
}

export function versionOf(version: string, given: Partial<PoolVersion> = {}): PoolVersion {
  return {
    version,
    state: 'wanted',
    what: '',
    since: NOW,
    is_proved: true,
    ready: 0,
    starting: 0,
    draining: 0,
    requests: null,
    share: null,
    errors: null,
    first_token_p50_ms: null,
    first_token_p95_ms: null,
    tokens_per_second: null,
    stopped_because: null,
    ...given,
  };
}

export function launchRow(id: string, state: LaunchRow['state'], given: Partial<LaunchRow> = {}): LaunchRow {
  return {
    id,
    name: `wv-inst-demo-${id}`,
    config_id: 'demo',
    provider: 'here',
    instance_type: 'local',
    state,
    state_at: NOW,
    reason:
      '1 worker wanted: callers keep 0.0 slots busy and 12 wait. (waiting 12, running 0 (0 of batches))',
    version: null,
    replaces: null,
    is_spot: false,
    is_stand_in: false,
    price_per_hour: 0.5,
    cost: 0,
    external_id: null,
    intended_at: NOW,
    requested_at: null,
    accepted_at: null,
    started_at: null,
    registered_at: null,
    ready_at: null,
    draining_at: null,
    terminating_at: null,
    ended_at: null,
    loading: null,
    ready_expected_at: null,
    cause: null,
    exit_code: null,
    detail: null,
    ...given,
  };
}

interface Given {
  pools?: Record<string, PoolScaling>;
  launches?: LaunchRow[];
  scaling?: Partial<NonNullable<FleetView['scaling']>>;
}

/** A fleet's view with a scheduler's part of its own. */
export function fleetView({ pools = { demo: scalingOf() }, launches = [], scaling = {} }: Given): FleetView {
  const harness = new FleetHarness();
  harness.share({ full: true, sessions: [], pools: Object.keys(pools).map((id) => pool(id)) });
  const view = harness.view();
  const rows = view.pools.map((row): PoolRow => ({ ...row, scaling: pools[row.config_id] ?? null }));
  return {
    ...view,
    at: NOW,
    pools: rows,
    launches,
    scaling: {
      installation: 'inst',
      applied_at: NOW,
      budget: { per_hour: null, per_day: null },
      price_per_hour: 0,
      spent_today: 0,
      budget_reached: null,
      providers: [{ name: 'here', driver: 'process', listed_at: NOW, error: null }],
      launchers: [{ launcher_id: 'box', drivers: ['process'], host: 'box', seen_at: NOW }],
      ...scaling,
    },
  };
}
