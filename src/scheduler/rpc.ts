import * as z from 'zod';
import type { ConfigSpec, ProviderSpec } from './spec.ts';

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
              /** Epoch ms by the provider's clock. */
              created_at: z.number().nullable(),
              started_at: z.number().nullable(),
              ended_at: z.number().nullable(),
              price_per_hour: z.number().nullable(),
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
            price_per_hour: z.number().nullable(),
          }),
          z.object({ kind: z.literal('no_capacity'), detail: z.string().max(2000) }),
          z.object({ kind: z.literal('rejected'), detail: z.string().max(2000) }),
          z.object({ kind: z.literal('terminated') }),
          /** It may or may not have happened. */
          z.object({ kind: z.literal('unknown'), detail: z.string().max(2000) }),
        ]),
      }),
    )
    .max(1000),
  /** Prices an hour that providers tell: provider, kind, US dollars. */
  prices: z
    .array(z.object({ provider: z.string().max(32), kind: z.string().max(128), price_per_hour: z.number() }))
    .max(1000),
});
export type LauncherReport = z.infer<typeof LauncherReport>;
export type MachineList = LauncherReport['lists'][number];
export type Machine = NonNullable<MachineList['machines']>[number];
export type OrderResult = LauncherReport['results'][number];
export type LaunchOutcome = OrderResult['outcome'];

export interface LauncherAnswer {
  /** Names of this installation's machines begin with it: what a driver lists. */
  prefix: string;
  /** Providers of the spec that this launcher has drivers for: they are to be listed. Empty without a spec. */
  providers: {
    name: string;
    spec: ProviderSpec;
    /** Kinds of machines that the spec's configs name there: their prices are asked for. */
    kinds: string[];
  }[];
  orders: Order[];
  /** When to come again. */
  sync_after_ms: number;
  /** How often to list each provider. */
  list_every_ms: number;
}

export type Order =
  | {
      kind: 'launch';
      launch_id: string;
      order: number;
      provider: string;
      /** Idempotency key at the provider, the worker's id, and the key by which it is found again. */
      name: string;
      /** The order was given before, to this launcher or another: ask by name before anything is created. */
      may_exist: boolean;
      machine: { kind: string; gpus: number; disk_gb: number | null; price_per_hour: number | null };
      config_id: string;
      config: Pick<ConfigSpec, 'engine' | 'model' | 'image' | 'env' | 'secrets' | 'slots'>;
      /** The worker's own token, void when the launch has ended; null where the queue asks for none. */
      token: string | null;
    }
  | {
      kind: 'terminate';
      launch_id: string;
      order: number;
      provider: string;
      name: string;
      external_id: string | null;
    };
