import * as z from 'zod';
import type { Sql } from '../durable/ports.ts';
import type { AppliedSpec } from './rpc.ts';
import { type FleetSpec, KnownFleetSpec, KnownProviderSpec, type ProviderSpec } from './spec.ts';
import { readState, removeState, writeState } from './state-table.ts';

/** Null: none is in force. */
export function readSpec(sql: Sql): AppliedSpec | null {
  const applied = readState<AppliedSpec>(sql, 'spec');
  return applied && { ...applied, spec: known(KnownFleetSpec, applied.spec) };
}

export function writeSpec(sql: Sql, spec: FleetSpec | null, now: number): void {
  if (spec) writeState(sql, 'spec', { spec, applied_at: now } satisfies AppliedSpec);
  else removeState(sql, 'spec');
}

/** Providers that a spec named once and that may still have machines. */
export function readFormerProviders(sql: Sql): Record<string, ProviderSpec> {
  const providers = readState<Record<string, ProviderSpec>>(sql, 'providers_before') ?? {};
  return known(z.record(z.string(), KnownProviderSpec), providers);
}

export function writeFormerProviders(sql: Sql, providers: Record<string, ProviderSpec>): void {
  writeState(sql, 'providers_before', providers);
}

/**
 * With the defaults of fields that came later. What a later version has written and this one cannot read is left as it
 * is: taken for no spec at all, every worker would be ended.
 */
function known<T>(schema: z.ZodType<T>, stored: T): T {
  const parsed = schema.safeParse(stored);
  return parsed.success ? parsed.data : stored;
}
