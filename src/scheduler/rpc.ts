import * as z from 'zod';
import { Adapters } from '../protocol/index.ts';
import { PoolScaling } from '../protocol/scaling-schemas.ts';
import { type FleetSpec, KnownProviderSpec } from './spec.ts';

/**
 * US dollars an hour that any machine may cost, many times what the dearest does: with less than nothing, or as much as
 * one likes, a report would outweigh every budget.
 */
export const MOST_PRICE_PER_HOUR = 10_000;
const ReportedPrice = z.number().min(0).max(MOST_PRICE_PER_HOUR);

/**
 * What a launcher and the scheduler say to each other: `POST /api/launchers/{id}/sync` with a token of the scope
 * `launcher`. The launcher keeps nothing: it tells what it has, what its providers list and what came of its orders,
 * and gets the orders that are due. Everything may be told twice.
 */
export const LauncherReport = z.object({
  /** Drivers that it has: it is given orders for their providers alone. */
  drivers: z.array(z.string().max(32)).max(32),
  /** `process` and `docker` on one machine: which machine; its orders stay with it. */
  host: z.string().max(256).optional(),
  /** Lists made since the last report. */
  lists: z
    .array(
      z.object({
        provider: z.string().max(32),
        /** Epoch ms by the launcher's clock when the call began, and how long ago that is. */
        age_ms: z.number().int().min(0),
        /** Null: the provider did not answer. Never taken for an empty list. */
        machines: z
          .array(
            z.object({
              external_id: z.string().max(256),
              name: z.string().max(256),
              /** `unknown`: a state that the driver does not know, never taken for an end. */
              state: z.enum(['starting', 'running', 'ended', 'unknown']),
              /** With `ended`: there was no room for it, or none any more. As a launch answered `no_capacity`. */
              no_capacity: z.boolean().optional(),
              /**
               * With `starting`: it was made and not started, as when its launcher was killed in between.
               * Its launch is ordered again.
               */
              unstarted: z.boolean().optional(),
              /** Epoch ms by the provider's clock. */
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
        /** Why it did not answer. */
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
          /** It is gone. */
          z.object({ kind: z.literal('terminated') }),
          /** The provider was told to end it and has not yet: it still takes its place, and may be paid for. */
          z.object({ kind: z.literal('terminating') }),
          /** It may or may not have happened. */
          z.object({ kind: z.literal('unknown'), detail: z.string().max(2000) }),
        ]),
      }),
    )
    .max(1000),
  /** Prices an hour that providers tell: provider, instance type, US dollars. */
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
export type Machine = NonNullable<MachineList['machines']>[number];
export type OrderResult = LauncherReport['results'][number];
export type LaunchOutcome = OrderResult['outcome'];

const OrderOf = {
  launch_id: z.string(),
  /** Counts the orders of a launch. */
  order: z.number().int().min(1),
  /** Key of `providers` in the spec. */
  provider: z.string(),
  /** Idempotency key at the provider, the worker's id, and the key by which it is found again. */
  name: z.string().min(1),
};

const LaunchOrder = z.object({
  kind: z.literal('launch'),
  ...OrderOf,
  /** The order was given before, to this launcher or another: ask by name before anything is created. */
  may_exist: z.boolean(),
  machine: z.object({
    instance_type: z.string(),
    gpus: z.number().int().min(0),
    disk_gb: z.number().nullable(),
    /** Not accepted above this, US dollars an hour; null: any. */
    price_per_hour: z.number().nullable(),
  }),
  config_id: z.string(),
  /** What its worker is started with, as the spec has it. */
  pool: z.object({
    engine: z.string(),
    model: z.string(),
    image: z.string().optional(),
    env: z.record(z.string(), z.string()),
    secrets: z.array(z.string()),
    slots: z.number().int().min(1),
    adapters: Adapters.default([]),
  }),
  /** The worker's own token, void when the launch has ended. Where the queue asks for none, it takes any. */
  token: z.string(),
});

const TerminateOrder = z.object({
  kind: z.literal('terminate'),
  ...OrderOf,
  /** Null: every machine of that name. */
  external_id: z.string().nullable(),
});

const Order = z.discriminatedUnion('kind', [LaunchOrder, TerminateOrder]);
export type Order = z.output<typeof Order>;

/** What a launcher is to do. It costs money, and the queue may be of another version: launchers parse it. */
export const LauncherAnswer = z.object({
  /** Names of this installation's machines begin with it: what a driver lists. */
  prefix: z.string().min(1),
  /** Providers of the spec that this launcher has drivers for: they are to be listed. Empty without a spec. */
  providers: z.array(
    z.object({
      name: z.string(),
      spec: KnownProviderSpec,
      /** Kinds of machines that the spec's pools name there: their prices are asked for. */
      instance_types: z.array(z.string()),
    }),
  ),
  orders: z.array(Order),
  /** When to come again, and how often to list each provider, ms. */
  sync_after_ms: z.number().min(0),
  list_every_ms: z.number().min(0),
});
export type LauncherAnswer = z.output<typeof LauncherAnswer>;

/** The worker of a launch: its token is good for this id and pool alone. */
export interface LaunchedWorker {
  worker_id: string;
  config_id: string;
  /** US dollars of its machine; null: nobody has told it. */
  price_per_hour: number | null;
}

/** US dollars, more than 0. */
export interface SpentOnDay {
  /** Its midnight UTC, epoch s. */
  day: number;
  config_id: string;
  dollars: number;
}

/** As `/schemas/Fleet.json` has it. */
const Spec: z.ZodType<FleetSpec> = z.any().meta({ type: 'object' });
export const AppliedSpec = z.object({
  spec: Spec,
  /** Epoch ms */
  applied_at: z.number(),
});
export type AppliedSpec = z.infer<typeof AppliedSpec>;

/** `refused`: why it is not put in force; nothing has changed. */
export type SpecAnswer = SpecChange | { refused: string };

const Dollars = z.number().min(0);
export const SpecChange = z.object({
  /** False: it was a dry run. */
  applied: z.boolean(),
  /** A sentence each; empty: it is the same. */
  changes: z.array(z.string()),
  /** US dollars an hour of all pools at their least and at their most, each on its first machine. */
  price_per_hour: z.object({ min: Dollars, max: Dollars }),
});
export type SpecChange = z.infer<typeof SpecChange>;

/**
 * - `launch`: one worker more, now, within `max` and the budget
 * - `drain`: ends all its workers, busy ones when they have finished, and launches none until it is resumed
 * - `pause`: holds what there is: launches none, ends none
 * - `resume`: ends a pause or a drain, and lets the breaker try again
 */
export const POOL_ACTIONS = ['launch', 'drain', 'pause', 'resume'] as const;
export type PoolAction = (typeof POOL_ACTIONS)[number];

/** `text`: what was done, or would be. */
export const Controlled = z.object({ text: z.string(), control: PoolScaling.shape.control });
export type ControlAnswer =
  | ({ ok: true } & z.infer<typeof Controlled>)
  /** `refused`: the budget, `max` or its machines do not allow it. */
  | { ok: false; reason: 'unknown_pool' | 'refused'; message: string };
