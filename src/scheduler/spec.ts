import * as z from 'zod';

/**
 * What an operator writes in fleet.yaml: which models are served, on what machines, for how much at most. The command
 * line checks it and gives it to the queue as JSON; from these types come the JSON Schema at `/schemas/fleet.json` and
 * the messages of `worker-vllm fleet check`. No secret stands here, only the names of variables that hold one where the
 * launcher runs.
 */

/** A name that providers accept within the names of machines. */
const Name = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/, 'expected 1 to 32 lower-case letters, digits and hyphens');

/** Name of a variable that holds a secret where the launcher runs. */
const VariableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable');

const DURATION = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?$/;
const UNIT_SECONDS = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** Seconds as a number, or `90s`, `5m`, `2h`, `1d`. The value is in seconds. */
const Duration = z
  .union([z.number().min(0), z.string().regex(DURATION, 'expected a duration such as 30s, 5m or 2h')])
  .transform((given) => (typeof given === 'number' ? given : secondsOf(given)));

/** US dollars an hour. */
const Price = z.number().min(0);

function secondsOf(text: string): number {
  const [, number = '0', unit = 's'] = DURATION.exec(text) ?? [];
  return Number(number) * UNIT_SECONDS[unit as keyof typeof UNIT_SECONDS];
}

const Common = {
  /** Machines of all configs there at once. */
  max: z.number().int().min(1).optional(),
};

/** Where machines come from: one of the drivers in src/providers, with what it needs to know. */
export const ProviderSpec = z.discriminatedUnion('driver', [
  z.strictObject({
    driver: z.literal('process'),
    ...Common,
    /** GPUs of this machine, by index; each worker gets as many as its candidate says. Left out: workers get none. */
    gpus: z.array(z.number().int().min(0)).optional(),
  }),
  z.strictObject({
    driver: z.literal('docker'),
    ...Common,
    /** As DOCKER_HOST: unix:///…, tcp://…; left out: what the environment says. */
    host: z.string().optional(),
    gpus: z.array(z.number().int().min(0)).optional(),
    network: z.string().optional(),
    /** As `docker run --volume`: HOST:CONTAINER[:ro]. */
    volumes: z.array(z.string()).default([]),
  }),
  z.strictObject({
    driver: z.literal('kubernetes'),
    ...Common,
    /** A context of the kubeconfig; left out: the service account inside a cluster, else the current context. */
    context: z.string().optional(),
    namespace: z.string().optional(),
    /** Merged into each pod's spec: nodeSelector, tolerations, volumes, … */
    pod: z.record(z.string(), z.unknown()).optional(),
  }),
  z.strictObject({
    driver: z.literal('runpod'),
    ...Common,
    api_key_variable: VariableName.default('RUNPOD_API_KEY'),
    cloud: z.enum(['SECURE', 'COMMUNITY']).default('SECURE'),
    data_centers: z.array(z.string()).optional(),
    network_volume: z.string().optional(),
    url: z.url().optional(),
  }),
  z.strictObject({
    driver: z.literal('vast'),
    ...Common,
    api_key_variable: VariableName.default('VAST_API_KEY'),
    /** Filters of an offer search beside the GPU and the price. */
    search: z.record(z.string(), z.unknown()).optional(),
    url: z.url().optional(),
  }),
  z.strictObject({
    driver: z.literal('dstack'),
    ...Common,
    url: z.url(),
    project: z.string().default('main'),
    token_variable: VariableName.default('DSTACK_TOKEN'),
  }),
]);
export type ProviderSpec = z.output<typeof ProviderSpec>;

/** One kind of machine that a config may run on. */
export const CandidateSpec = z.strictObject({
  /** A key of `providers`. */
  provider: Name,
  /** The provider's name for the kind: a GPU type of RunPod or Vast, an instance type; any word for local ones. */
  kind: z.string().min(1).max(128).default('local'),
  gpus: z.number().int().min(0).default(1),
  /** US dollars an hour for the whole machine; left out: what the provider says, else 0. */
  price_per_hour: Price.optional(),
  /** Gigabytes of the container's disk. */
  disk_gb: z.number().int().min(1).optional(),
});
export type CandidateSpec = z.output<typeof CandidateSpec>;

export const ConfigSpec = z.strictObject({
  engine: z.enum(['vllm', 'fastdeploy', 'simulator', 'external']).default('vllm'),
  /** The model to serve: VLLM_MODEL. */
  model: z.string().min(1).max(512),
  /** Names beside `model` that callers may use before the first worker has told its own. */
  served_names: z.array(z.string().min(1).max(256)).default([]),
  image: z.string().min(1).optional(),
  /** Variables of the worker's container, as in README.md. */
  env: z.record(VariableName, z.union([z.string(), z.number(), z.boolean()]).transform(String)).default({}),
  /** Variables whose values the launcher takes from its own environment: HF_TOKEN, … */
  secrets: z.array(VariableName).default([]),
  /** Jobs side by side of one worker: CASOLA_MAX_JOBS. */
  slots: z.number().int().min(1).max(4096).default(8),
  min: z.number().int().min(0).default(0),
  max: z.number().int().min(0).default(1),
  /** How long the last worker stays without work. Left out: as long as a start takes, at least 5 min. */
  keep_warm: Duration.optional(),
  /** How long a job should wait at most, once there is a worker: the rule's G. */
  wanted_wait: Duration.default(30),
  /** Share of the slots that is planned to be busy: the rule's u. Less costs more and waits less. */
  utilization: z.number().min(0.1).max(1).default(0.85),
  /** How long a caller waits for the first worker to be started. */
  start_wait: Duration.default(600),
  /** Takes no worker for callers that wait; only batches start one. */
  batch_only: z.boolean().default(false),
  /** What it may run on, preferred first where nothing is learnt yet. */
  machines: z.array(CandidateSpec).min(1),
});
export type ConfigSpec = z.output<typeof ConfigSpec>;

export const FleetSpec = z
  .strictObject({
    $schema: z.string().optional(),
    /** US dollars, over everything that this fleet launches. */
    budget: z.strictObject({ per_hour: Price.optional(), per_day: Price.optional() }).default({}),
    providers: z.record(Name, ProviderSpec),
    configs: z.record(Name, ConfigSpec),
  })
  .check(({ value, issues }) => {
    for (const [id, config] of Object.entries(value.configs)) {
      if (config.min > config.max) {
        issues.push({
          code: 'custom',
          input: config.min,
          path: ['configs', id, 'min'],
          message: `min is ${config.min}, more than max, ${config.max}`,
        });
      }
      for (const [index, { provider }] of config.machines.entries()) {
        if (value.providers[provider]) continue;
        const known = Object.keys(value.providers).join(', ') || 'none';
        issues.push({
          code: 'custom',
          input: provider,
          path: ['configs', id, 'machines', index, 'provider'],
          message: `there is no provider "${provider}" under providers, only ${known}`,
        });
      }
    }
  });
export type FleetSpec = z.output<typeof FleetSpec>;
