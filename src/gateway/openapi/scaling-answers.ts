import * as z from 'zod';
import type {
  ConfigScaling as ConfigScalingType,
  LaunchRow as LaunchRowType,
  ScalingSummary as ScalingSummaryType,
} from '../../protocol/index.ts';
import type { SpecChange as SpecChangeType } from '../../scheduler/rpc.ts';

/** What is told of machines that the scheduler launches, held against its types by the compiler. */

const count = z.number().int().min(0);
/** Epoch ms of the server's clock. */
const time = z.number();
const dollars = z.number().min(0);
const text = z.string();

export const LaunchRow: z.ZodType<LaunchRowType> = z.object({
  launch_id: text,
  name: text,
  config_id: text,
  provider: text,
  kind: text,
  state: z.enum([
    'intended',
    'requested',
    'accepted',
    'registered',
    'ready',
    'draining',
    'terminating',
    'gone',
    'failed',
  ]),
  state_since: time,
  reason: text,
  price_per_hour: dollars,
  cost: dollars,
  external_id: text.nullable(),
  intended_at: time,
  requested_at: time.nullable(),
  accepted_at: time.nullable(),
  started_at: time.nullable(),
  registered_at: time.nullable(),
  ready_at: time.nullable(),
  draining_at: time.nullable(),
  terminating_at: time.nullable(),
  ended_at: time.nullable(),
  loading: z.object({ phase: text.nullable(), progress: z.number().min(0).max(1).nullable() }).nullable(),
  ready_expected_at: time.nullable(),
  cause: z.enum(['no_capacity', 'rejected', 'vanished', 'start_deadline', 'exited', 'lost']).nullable(),
  exit_code: z.number().int().nullable(),
  detail: text.nullable(),
});

export const ConfigScaling: z.ZodType<ConfigScalingType> = z.object({
  wanted: count.nullable(),
  min: count,
  max: count,
  ready: count,
  starting: count,
  draining: count,
  waiting: count,
  price_per_hour: dollars,
  spent_today: dollars,
  decision: z.object({ at: time, text }).nullable(),
  control: z.enum(['automatic', 'paused', 'drained']),
  breaker: z.object({ text, until: time.nullable() }).nullable(),
});

export const ScalingSummary: z.ZodType<ScalingSummaryType> = z.object({
  installation: text,
  applied_at: time,
  budget: z.object({ per_hour: dollars.nullable(), per_day: dollars.nullable() }),
  price_per_hour: dollars,
  spent_today: dollars,
  budget_reached: text.nullable(),
  providers: z.array(
    z.object({ name: text, driver: text, listed_at: time.nullable(), error: text.nullable() }),
  ),
  launchers: z.array(
    z.object({ launcher_id: text, drivers: z.array(text), host: text.nullable(), seen_at: time }),
  ),
});

export const AppliedSpec = z.object({
  /** As `/schemas/Fleet.json` has it. */
  spec: z.record(z.string(), z.unknown()),
  applied_at: time,
});

export const SpecChange: z.ZodType<SpecChangeType> = z.object({
  applied: z.boolean(),
  changes: z.array(text),
  price_per_hour: z.object({ min: dollars, max: dollars }),
});

export const Controlled = z.object({
  text,
  control: z.enum(['automatic', 'paused', 'drained']),
});
