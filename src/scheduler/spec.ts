import * as z from 'zod';
import { aliasFaults } from '../aliases/faults.ts';
import { Duration } from '../protocol/duration.ts';
import { Adapters, ENGINE_NAMES, expectationWords, fieldsOf } from '../protocol/index.ts';
import { AliasSpec } from './alias-spec.ts';
import { LabelValue } from './pod-spec.ts';
import { ProviderSpec, VariableName } from './provider-spec.ts';
import { spotFaults } from './spot-spec.ts';

/**
 * The types of this file describe fleet.yaml, where an operator writes which models are served, on what machines, for
 * how much at most. The command line checks it and gives it to the queue as JSON; from these types come the JSON
 * Schema at `/schemas/fleet.json` and the messages of `worker-vllm fleet check`. The file holds no secret, only the
 * names of variables that hold one where the launcher runs.
 */

/** A name that providers accept within the names of machines. */
const Name = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/, 'expected 1 to 32 lower-case letters, digits and hyphens');

/** A price in US dollars an hour. */
const Price = z.number().min(0);

const Share = z.number().min(0.5).max(0.9999);

const Objectives = z
  .strictObject({
    first_token: z
      .strictObject({
        within: Duration.optional().describe('Left out: 10 s.'),
        share: Share.optional().describe('Of callers on a connection. Left out: 0.95.'),
      })
      .optional()
      .describe('How soon callers should have their first token.'),
    success: Share.optional().describe('Share of jobs that should succeed. Left out: 0.99.'),
  })
  .describe('What callers may expect: where it is missed, the page and alerts say so.');

const Canary = z.strictObject({
  share: z
    .number()
    .min(0.01)
    .max(0.5)
    .default(0.1)
    .describe('Of the requests, and of the workers, but at least one worker.'),
  for: Duration.default(600).describe('How long it lasts from when its first worker is ready.'),
});

const Update = z
  .strictObject({
    surge: z.number().int().min(0).max(64).default(1).describe('Workers launched beside the old ones.'),
    unavailable: z
      .number()
      .int()
      .min(0)
      .max(64)
      .default(0)
      .describe('Workers that may be missing meanwhile: old ones that end before new ones are ready.'),
    patience: Duration.default(600).describe(
      'How long there is no room for a worker beside the old ones before one of them ends first.',
    ),
    canary: Canary.optional().describe('First only a part of the requests. Left out: no such time.'),
  })
  .describe('How workers are replaced when what they are started with changes.');
export type Update = z.output<typeof Update>;

/** How the workers of a pool are replaced if its part of the file says nothing, or is from before it could. */
export const USUAL_UPDATE: Update = Update.parse({});

/** One instance type that a pool may run on. */
export const CandidateSpec = z.strictObject({
  provider: Name.describe('One of `providers`, by its name.'),
  instance_type: z
    .string()
    .min(1)
    .max(128)
    .default('local')
    .describe(
      "The provider's own name for the machine: a GPU type of RunPod or Vast, a node label's value; any word for local ones.",
    ),
  gpus: z.number().int().min(0).default(1).describe('GPUs of one worker.'),
  price_per_hour: Price.optional().describe(
    'US dollars an hour for the whole machine; left out: what the provider says, else 0. Of a spot machine: the most that it may cost, or that is bid for it.',
  ),
  spot: z
    .boolean()
    .optional()
    .describe('Whether it is a spot machine: cheaper, and its provider may take it back at any time.'),
  disk_gb: z.number().int().min(1).optional().describe("Gigabytes of the container's disk."),
});
export type CandidateSpec = z.output<typeof CandidateSpec>;

export const PoolSpec = z.strictObject({
  engine: z.enum(ENGINE_NAMES).default('vllm'),
  model: z.string().min(1).max(512).describe('The model to serve: VLLM_MODEL.'),
  served_names: z
    .array(z.string().min(1).max(256))
    .default([])
    .describe('Names beside `model` that callers may use before the first worker has told its own.'),
  adapters: Adapters.default([]).describe(
    'LoRA adapters that its workers load when callers name them as their model: ENGINE_ADAPTERS.',
  ),
  image: z
    .string()
    .min(1)
    .optional()
    .describe("The worker's image; left out: the released one with this engine."),
  env: z
    .record(VariableName, z.union([z.string(), z.number(), z.boolean()]).transform(String))
    .default({})
    .describe("Variables of the worker's container, as in docs/settings.md."),
  secrets: z
    .array(VariableName)
    .default([])
    .describe('Variables whose values the launcher takes from its own environment, such as HF_TOKEN.'),
  slots: z
    .number()
    .int()
    .min(1)
    .max(4096)
    .default(8)
    .describe('Jobs side by side of one worker: CASOLA_MAX_JOBS.'),
  revision: z
    .string()
    .min(1)
    .max(64)
    .optional()
    .describe('Any words: its workers are replaced when they change, as after a change of a secret.'),
  update: Update.prefault({}),
  min: z.number().int().min(0).default(0).describe('Workers that run even without work.'),
  max: z.number().int().min(0).default(1).describe('Workers at most.'),
  scale_down_after: Duration.optional().describe(
    'How long a worker stays after it was last needed. Left out: 5 min, or two starts where these take longer.',
  ),
  keep_warm: Duration.optional().describe(
    'How long the last worker stays without work. Left out: as long as `scale_down_after` says for the others.',
  ),
  wanted_wait: Duration.default(15).describe(
    'How long a job should wait at most, once there is a worker. Less costs more.',
  ),
  utilization: z
    .number()
    .min(0.1)
    .max(1)
    .default(0.7)
    .describe('Share of the slots that is planned to be busy. Less costs more, and jobs wait less.'),
  start_wait: Duration.default(600).describe('How long a caller waits for the first worker to be started.'),
  objectives: Objectives.default({}),
  spot: z
    .strictObject({
      base: z
        .number()
        .int()
        .min(0)
        .optional()
        .describe('Workers that are on-demand, the first ones. Left out: 1, and 0 with `batch_only`.'),
      back_after: Duration.default(1200).describe(
        'How long a spot machine has been ready before the on-demand one that stood in for it ends.',
      ),
    })
    .optional()
    .describe('How far the pool relies on those of its `machines` that are spot machines.'),
  batch_only: z
    .boolean()
    .default(false)
    .describe('Takes no worker for callers that wait; only batches start one.'),
  machines: z
    .array(CandidateSpec)
    .min(1)
    .describe('What it may run on, preferred first where nothing is learnt yet.'),
});
export type PoolSpec = z.output<typeof PoolSpec>;

const Budget = z.strictObject({
  per_hour: Price.optional().describe('Of all machines that run at once.'),
  per_day: Price.optional().describe('Of a day of UTC.'),
});

export const FleetSpec = z
  .strictObject({
    $schema: z.string().optional(),
    budget: Budget.default({}).describe('US dollars, over everything that this fleet launches.'),
    providers: z.record(Name, ProviderSpec).describe('Where machines come from, by a name of your own.'),
    pools: z
      .record(Name, PoolSpec)
      .describe('What is served, by the name that workers have as CASOLA_CONFIG_ID.'),
    aliases: z
      .record(z.string().min(1).max(256), AliasSpec)
      .default({})
      .describe('Names that callers may ask for in place of a model: docs/aliases.md.'),
  })
  // The checks run even if there are other faults, so that one check reports them all.
  .superRefine(checkReferences, { when: () => true })
  .superRefine(checkAliases, { when: () => true })
  .superRefine(checkSecrets, { when: () => true });
export type FleetSpec = z.output<typeof FleetSpec>;

/**
 * Reports the faults that no field shows by itself. The value may be anything: its own faults are reported beside
 * these.
 */
function checkReferences(value: unknown, context: z.core.$RefinementCtx): void {
  const { providers, pools } = fieldsOf(value);
  const known = Object.keys(fieldsOf(providers));
  const fault = (path: PropertyKey[], message: string) =>
    context.addIssue({ code: 'custom', path: ['pools', ...path], message });
  for (const [id, pool] of Object.entries(fieldsOf(pools))) {
    const { min, max, machines, model, served_names, adapters, update } = fieldsOf(pool);
    const taken = [id, model, ...(Array.isArray(served_names) ? served_names : [])];
    for (const [index, adapter] of (Array.isArray(adapters) ? adapters : []).entries()) {
      const { name } = fieldsOf(adapter);
      if (typeof name === 'string' && taken.includes(name))
        fault(
          [id, 'adapters', index, 'name'],
          `"${name}" is the model's or the pool's own name: give it another`,
        );
    }
    if (typeof min === 'number' && typeof max === 'number' && min > max) {
      fault([id, 'min'], `min is ${min}, more than max, ${max}`);
    }
    const { surge, unavailable } = fieldsOf(update);
    if (surge === 0 && !unavailable) {
      fault([id, 'update', 'surge'], 'surge and unavailable are both 0, so no worker could ever be replaced');
    }
    for (const { path, message } of spotFaults(fieldsOf(pool), fieldsOf(providers)))
      fault([id, ...path], message);
    for (const [index, machine] of (Array.isArray(machines) ? machines : []).entries()) {
      const { provider, instance_type } = fieldsOf(machine);
      if (typeof provider !== 'string') continue;
      if (
        fieldsOf(fieldsOf(providers)[provider]).driver === 'kubernetes' &&
        typeof instance_type === 'string'
      ) {
        const wrong = LabelValue.safeParse(instance_type, { error: expectationWords }).error?.issues[0];
        if (wrong)
          fault(
            [id, 'machines', index, 'instance_type'],
            `${wrong.message}, not ${JSON.stringify(instance_type)}`,
          );
      }
      if (known.includes(provider)) continue;
      const names = known.join(', ') || 'none';
      fault(
        [id, 'machines', index, 'provider'],
        `there is no provider "${provider}" under providers, only ${names}`,
      );
    }
  }
}

/** Reports the faults of aliases that no field shows by itself. */
function checkAliases(value: unknown, context: z.core.$RefinementCtx): void {
  const { aliases, pools } = fieldsOf(value);
  const models = new Map<string, string>();
  for (const [id, pool] of Object.entries(fieldsOf(pools))) {
    const { model, served_names, adapters } = fieldsOf(pool);
    const others = [served_names, adapters].flatMap((list) => (Array.isArray(list) ? list : []));
    for (const name of [id, model, ...others.map((other) => fieldsOf(other).name ?? other)])
      if (typeof name === 'string') models.set(name, id);
  }
  for (const { path, message, isOfKey } of aliasFaults(aliases, models))
    context.addIssue({
      code: 'custom',
      path: ['aliases', ...path],
      message,
      ...(isOfKey && { params: { of: 'key' } }),
    });
}

/**
 * Matches names of variables that hold a secret, by their end: MAX_TOKENS and TOKENIZER do not match. The value of
 * GOOGLE_APPLICATION_CREDENTIALS is a path.
 */
const HOLDS_A_SECRET =
  /(?:^|_)(?:TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY|SECRET(?:_KEY)?|PASSWORD|PASSWD|(?<!APPLICATION_)CREDENTIALS?)$/i;

/** Reports secrets in the spec, since every token that may read the fleet may read its spec. */
function checkSecrets(value: unknown, context: z.core.$RefinementCtx): void {
  for (const [id, pool] of Object.entries(fieldsOf(fieldsOf(value).pools))) {
    for (const name of Object.keys(fieldsOf(fieldsOf(pool).env)).filter((name) =>
      HOLDS_A_SECRET.test(name),
    )) {
      const message = `looks like a secret, which does not belong into the spec: put its name under "secrets", and its value into the environment of the launcher`;
      context.addIssue({
        code: 'custom',
        path: ['pools', id, 'env', name],
        message,
        params: { of: 'key' },
      });
    }
  }
}
