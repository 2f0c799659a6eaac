import type { Sql } from '../durable/ports.ts';
import type { ConfigScaling, LaunchRow, ScalingSummary } from '../protocol/index.ts';
import { prefixOf } from './launch.ts';
import type {
  AppliedSpec,
  ConfigAction,
  ControlAnswer,
  LauncherAnswer,
  LauncherReport,
  SpecChange,
} from './rpc.ts';
import type { FleetSpec } from './spec.ts';
import { readState, removeState, writeState } from './state-table.ts';

export interface SchedulerPorts {
  sql: Sql;
  /** Epoch ms */
  now(): number;
}

/**
 * The scheduler of one queue: rows, and what is decided over them. Every method is synchronous, so that what it writes
 * is one commit. It keeps nothing in memory: after a crash it goes on from its rows.
 *
 * For now a stub: a spec is kept and told, nothing is launched.
 */
export class Scheduler {
  readonly #ports: SchedulerPorts;

  constructor(ports: SchedulerPorts) {
    this.#ports = ports;
  }

  applySpec(spec: FleetSpec, dryRun: boolean): SpecChange {
    if (!dryRun) writeState(this.#ports.sql, 'spec', { spec, applied_at: this.#ports.now() });
    return { applied: !dryRun, changes: [], price_per_hour: { min: 0, max: 0 } };
  }

  removeSpec(dryRun: boolean): SpecChange | null {
    if (!this.spec()) return null;
    if (!dryRun) removeState(this.#ports.sql, 'spec');
    return { applied: !dryRun, changes: [], price_per_hour: { min: 0, max: 0 } };
  }

  spec(): AppliedSpec | null {
    return readState(this.#ports.sql, 'spec');
  }

  /** Stub. */
  control(configId: string, _action: ConfigAction, _dryRun: boolean): ControlAnswer {
    return { ok: false, reason: 'unknown_config', message: `The fleet has no config "${configId}".` };
  }

  /** Stub. */
  sync(_launcherId: string, report: LauncherReport): LauncherAnswer {
    const all = Object.entries(this.spec()?.spec.providers ?? {});
    return {
      prefix: prefixOf('stub'),
      providers: all.flatMap(([name, spec]) =>
        report.drivers.includes(spec.driver) ? { name, spec, kinds: [] } : [],
      ),
      orders: [],
      sync_after_ms: 5000,
      list_every_ms: 15_000,
    };
  }

  /** Stub. */
  wantedWorkers(_configId: string): number | null {
    return null;
  }

  /** Stub. */
  launches(): LaunchRow[] {
    return [];
  }

  /** Stub. */
  scaling(): { summary: ScalingSummary; configs: ReadonlyMap<string, ConfigScaling> } | null {
    return null;
  }
}
