import type { Sql } from '../durable/ports.ts';
import type { AppliedSpec } from './rpc.ts';
import type { FleetSpec, ProviderSpec } from './spec.ts';
import { readState, removeState, writeState } from './state-table.ts';

/** Null: none is in force. */
export function readSpec(sql: Sql): AppliedSpec | null {
  return readState<AppliedSpec>(sql, 'spec');
}

export function writeSpec(sql: Sql, spec: FleetSpec | null, now: number): void {
  if (spec) writeState(sql, 'spec', { spec, applied_at: now } satisfies AppliedSpec);
  else removeState(sql, 'spec');
}

/** Providers that a spec named once and that may still have machines. */
export function readFormerProviders(sql: Sql): Record<string, ProviderSpec> {
  return readState<Record<string, ProviderSpec>>(sql, 'providers_before') ?? {};
}

export function writeFormerProviders(sql: Sql, providers: Record<string, ProviderSpec>): void {
  writeState(sql, 'providers_before', providers);
}
