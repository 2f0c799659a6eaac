import * as z from 'zod';
import { Adapters } from '../protocol/index.ts';
import { PoolScaling } from '../protocol/scaling-schemas.ts';
import { KnownProviderSpec } from './provider-spec.ts';
import type { FleetSpec } from './spec.ts';

/**
 * The highest price of any machine in a report, US dollars an hour: many times the price of the dearest. A negative
 * price, or one without a bound, would make a report outweigh every budget.
 */
export const MOST_PRICE_PER_HOUR = 10_000;
const ReportedPrice = z.number().min(0).max(MOST_PRICE_PER_HOUR);

/**
 * A launcher's report to the scheduler: `POST /api/launchers/{id}/sync` with a token of the scope `launcher`. The
 * launcher stores nothing: it reports its drivers, its providers' lists and the results of its orders, and gets the
 * orders that are due. Everything may be reported twice.
 */
export const LauncherReport = z.object({
  /** The launcher's drivers: it gets orders for their providers alone. */
  drivers: z.array(z.string().max(32)).max(32),
  /** The launcher's own machine, for `process` and `docker`: orders for machines on it go to this launcher alone. */
  host: z.string().max(256).optional(),
  /** The lists made since the last report. */
  lists: z
    .array(
      z.object({
        provider: z.string().max(32),
        /** The time since the call began, ms by the launcher's clock. */
        age_ms: z.number().int().min(0),
        /** The listed machines; null: the provider did not answer, which never counts as an empty list. */
        machines: z
          .array(
            z.object({
              external_id: z.string().max(256),
              name: z.string().max(256),
              /** `unknown` is a state that the driver does not know; it never counts as an end. */
              state: z.enum(['starting', 'running', 'ended', 'unknown']),
              /**
               * Whether the provider had no room for an `ended` machine, or took its room away; this counts as a launch
               * answered with `no_capacity`.
               */
              no_capacity: z.boolean().optional(),
              /** Whether the provider took an `ended` machine back, as it does with spot machines. */
              preempted: z.boolean().optional(),
              /**
               * Whether a `starting` machine was made but not started, as when its launcher was killed in between; its
               * launch is ordered again.
               */
              unstarted: z.boolean().optional(),
              /**
               * When the machine was made, epoch ms by the provider's clock; the next two fields use that clock too.
               */
              created_at: z.number().nullable(),
              started_at: z.number().nullable(),
              ended_at: z.number().nullable(),
              price_per_hour: ReportedPrice.nullable(),
              exit_code: z.number().int().nullable(),
              detail: z.string().max(2000).nullable(),
            }),
          )
          .max(5000)
          .nullable(),
        /** The reason why the provider did not answer. */
        error: z.string().max(2000).nullable(),
      }),
    )
    .max(64),
  results: z
    .array(
      z.object({
        launch_id: z.string().max(64),
        order: z.number().int().min(1),
        outcome: z.discriminatedUnion('kind', [
          z.object({
            kind: z.literal('launched'),
            external_id: z.string().max(256),
            price_per_hour: ReportedPrice.nullable(),
          }),
          z.object({ kind: z.literal('no_capacity'), detail: z.string().max(2000) }),
          z.object({ kind: z.literal('rejected'), detail: z.string().max(2000) }),
          /** The machine is gone. */
          z.object({ kind: z.literal('terminated') }),
          /**
           * The provider was told to end the machine and has not done so yet: it still takes up room, and may be paid
           * for.
           */
          z.object({ kind: z.literal('terminating') }),
          /** The order may or may not have taken effect. */
          z.object({ kind: z.literal('unknown'), detail: z.string().max(2000) }),
        ]),
      }),
    )
    .max(1000),
  /** The prices that providers report, US dollars an hour by provider and instance type. */
  prices: z
    .array(
      z.object({
        provider: z.string().max(32),
        instance_type: z.string().max(128),
        price_per_hour: ReportedPrice,
      }),
    )
    .max(1000),
});
export type LauncherReport = z.infer<typeof LauncherReport>;
export type MachineList = LauncherReport['lists'][number];
export type ListedMachine = NonNullable<MachineList['machines']>[number];
export type OrderResult = LauncherReport['results'][number];
export type LaunchOutcome = OrderResult['outcome'];

const OrderOf = {
  launch_id: z.string(),
  /** The order's number among those of its launch. */
  order: z.number().int().min(1),
  /** The key of the order's provider in `providers` of the spec. */
  provider: z.string(),
  /**
   * The machine's name: the idempotency key at the provider, the worker's id, and the key by which the machine is
   * found again.
   */
  name: z.string().min(1),
};

const LaunchOrder = z.object({
  kind: z.literal('launch'),
  ...OrderOf,
  /**
   * Whether the order was given before, to this launcher or another: the driver then looks for the name before it
   * creates anything.
   */
  may_exist: z.boolean(),
  machine: z.object({
    instance_type: z.string(),
    gpus: z.number().int().min(0),
    disk_gb: z.number().nullable(),
    /** The highest price of the machine, US dollars an hour; null: any price. */
    price_per_hour: z.number().nullable(),
    /** Whether the machine is to be a spot machine. */
    spot: z.boolean().optional(),
  }),
  config_id: z.string(),
  /** The part of the pool's spec that the worker is started with. */
  pool: z.object({
    engine: z.string(),
    model: z.string(),
    image: z.string().optional(),
    env: z.record(z.string(), z.string()),
    secrets: z.array(z.string()),
    slots: z.number().int().min(1),
    adapters: Adapters.default([]),
  }),
  /** The version of the launch, which the worker tells when it registers; absent: its queue knows no versions. */
  version: z.string().nullable().optional(),
  /** The worker's own token, void when the launch has ended. If the queue requires no token, any value will do. */
  token: z.string(),
});

const TerminateOrder = z.object({
  kind: z.literal('terminate'),
  ...OrderOf,
  /** The machine's id at the provider; null: the order is for every machine of that name. */
  external_id: z.string().nullable(),
});

const Order = z.discriminatedUnion('kind', [LaunchOrder, TerminateOrder]);
export type Order = z.output<typeof Order>;

/**
 * The scheduler's answer: a launcher's work. Orders cost money, and the queue may be of another version, so launchers
 * parse the answer.
 */
export const LauncherAnswer = z.object({
  /** The beginning of the names of this installation's machines, which drivers list. */
  prefix: z.string().min(1),
  /** The spec's providers that this launcher has drivers for and shall list. Empty without a spec. */
  providers: z.array(
    z.object({
      name: z.string(),
      spec: KnownProviderSpec,
      /** The instance types that the spec's pools name at the provider: the launcher asks for their prices. */
      instance_types: z.array(z.string()),
    }),
  ),
  orders: z.array(Order),
  /** The time until the launcher syncs again, ms; `list_every_ms` is the interval at which it lists each provider. */
  sync_after_ms: z.number().min(0),
  list_every_ms: z.number().min(0),
});
export type LauncherAnswer = z.output<typeof LauncherAnswer>;

/** The worker of a launch: the launch's token is valid for this id and pool alone. */
export interface LaunchedWorker {
  worker_id: string;
  config_id: string;
  /** The price of the worker's machine, US dollars an hour; null: nobody has reported it. */
  price_per_hour: number | null;
}

/** A pool's cost on a day, US dollars, more than 0. */
export interface SpentOnDay {
  /** The day's midnight UTC, epoch s. */
  day: number;
  config_id: string;
  dollars: number;
}

/** The spec in the form of `/schemas/fleet.json`. */
const Spec: z.ZodType<FleetSpec> = z.any().meta({ type: 'object' });
export const AppliedSpec = z.object({
  spec: Spec,
  /** When the spec was applied, epoch ms. */
  applied_at: z.number(),
});
export type AppliedSpec = z.infer<typeof AppliedSpec>;

/** The result of a new spec. `refused` says why the spec is not put in force; nothing has changed then. */
export type SpecAnswer = SpecChange | { refused: string };

const Dollars = z.number().min(0);
export const SpecChange = z.object({
  /** Whether the spec is in force; false after a dry run. */
  applied: z.boolean(),
  /** The changes, a sentence each; empty if the spec is the same. */
  changes: z.array(z.string()),
  /** The price of all pools with their fewest and their most workers, each on its first machine, US dollars an hour. */
  price_per_hour: z.object({ min: Dollars, max: Dollars }),
});
export type SpecChange = z.infer<typeof SpecChange>;

/**
 * - `launch`: launches one more worker now, within `max` and the budget
 * - `drain`: ends all workers of the pool, busy ones once they have finished, and launches none until it is resumed
 * - `pause`: holds the pool's workers: launches none, ends none
 * - `resume`: ends a pause or a drain, and lets the breaker try again
 */
export const POOL_ACTIONS = ['launch', 'drain', 'pause', 'resume'] as const;
export type PoolAction = (typeof POOL_ACTIONS)[number];

/**
 * - `anew`: replaces every worker by one of the same settings, as after a change of a secret's value
 * - `to`: goes to one of the versions that are kept
 * - `back`: goes to the version that was wanted last before this one, and was proved
 * - `pause`: replaces no more workers; `resume`: goes on
 */
export const RollRequest = z.discriminatedUnion('action', [
  z.object({ action: z.enum(['anew', 'back', 'pause', 'resume']) }),
  z.object({ action: z.literal('to'), version: z.string().min(1).max(64) }),
]);
export type RollRequest = z.output<typeof RollRequest>;

/** The result of a roll: `text` says what is done, or would be, a sentence or more. */
export const Rolled = z.object({
  text: z.string(),
  /** The version that every worker is to have now. */
  wanted: z.string(),
});
export type RollAnswer =
  | ({ ok: true } & z.infer<typeof Rolled>)
  /** The refusal of a roll. `unknown_version`: the version is not kept, or there is none to go back to. */
  | { ok: false; reason: 'unknown_pool' | 'unknown_version'; message: string };

/** The result of an action on a pool; `text` says what was done, or would be. */
export const Controlled = z.object({ text: z.string(), control: PoolScaling.shape.control });
export type ControlAnswer =
  | ({ ok: true } & z.infer<typeof Controlled>)
  /** The refusal of an action. `refused`: the budget, `max` or the pool's machines do not allow it. */
  | { ok: false; reason: 'unknown_pool' | 'refused'; message: string };
