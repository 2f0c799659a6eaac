import * as z from 'zod';
import { DRIVERS } from './drivers.ts';
import { PodSpec } from './pod-spec.ts';

/** The part of fleet.yaml that says where machines come from. */

/** Name of a variable that holds a secret where the launcher runs. */
export const VariableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable');

const Gpus = z
  .array(z.number().int().min(0))
  .optional()
  .describe(
    'GPUs of that machine, by index; each worker gets as many as its candidate says. Left out: workers get none.',
  );

/** Docker's options of a bind mount or volume. */
const MODE = 'ro|rw|z|Z|nocopy|r?shared|r?slave|r?private|cached|consistent|delegated';

const Volume = z
  .string()
  .regex(
    new RegExp(`^(/[^:]*|[a-zA-Z0-9][a-zA-Z0-9_.-]+):/[^:]*(:(${MODE})(,(${MODE}))*)?$`),
    'expected an absolute path or the name of a volume, then ":" and an absolute path in the container, then maybe ":ro"',
  );

const KEY = 'Name of the variable that holds the key, where the launcher runs.';

const Common = {
  max: z.number().int().min(1).optional().describe('Machines of all pools there at once.'),
};

const AnyPod = z.record(z.string(), z.unknown()).optional();

const PROVIDERS = [
  z.strictObject({
    driver: z.literal('process'),
    ...Common,
    gpus: Gpus,
  }),
  z.strictObject({
    driver: z.literal('docker'),
    ...Common,
    host: z
      .string()
      .optional()
      .describe('As DOCKER_HOST: unix:///…, tcp://…; left out: what the environment says.'),
    gpus: Gpus,
    network: z.string().optional(),
    volumes: z.array(Volume).default([]).describe('As `docker run --volume`: HOST:CONTAINER[:ro].'),
  }),
  z.strictObject({
    driver: z.literal('kubernetes'),
    ...Common,
    context: z
      .string()
      .optional()
      .describe(
        'A context of the kubeconfig; left out: the service account inside a cluster, else the current context.',
      ),
    namespace: z.string().optional(),
    pod: PodSpec.optional().describe(
      "Merged into each pod's spec: nodeSelector, tolerations, volumes and the like.",
    ),
    spot_pod: PodSpec.optional().describe(
      'Merged into the spec of each spot pod too: the nodeSelector that spot nodes have, and the tolerations that they need. Other pods keep off nodes with these labels.',
    ),
  }),
  z.strictObject({
    driver: z.literal('runpod'),
    ...Common,
    api_key_variable: VariableName.default(DRIVERS.runpod.keyVariable).describe(KEY),
    cloud: z.enum(['SECURE', 'COMMUNITY']).default('SECURE'),
    data_centers: z.array(z.string()).optional().describe('Left out: any.'),
    network_volume: z
      .string()
      .optional()
      .describe('Id of the volume with the models; it ties pods to its data center.'),
    min_cuda_version: z
      .string()
      .regex(/^\d+\.\d+$/, 'expected a CUDA version such as "12.8", in quotes')
      .default('12.8')
      .describe("The oldest CUDA version that a host's driver may have: the one of the image."),
    registry: z
      .string()
      .min(1)
      .optional()
      .describe('Id of the registry credentials at RunPod, for an image that is not public.'),
    url: z.url().optional(),
  }),
  z.strictObject({
    driver: z.literal('vast'),
    ...Common,
    api_key_variable: VariableName.default(DRIVERS.vast.keyVariable).describe(KEY),
    search: z
      .record(z.string(), z.unknown())
      .optional()
      .describe('Filters of an offer search beside the GPU and the price.'),
    url: z.url().optional(),
  }),
  z.strictObject({
    driver: z.literal('dstack'),
    ...Common,
    url: z.url(),
    project: z.string().default('main'),
    token_variable: VariableName.default(DRIVERS.dstack.keyVariable).describe(KEY),
  }),
] as const;

/** A source of machines: one of the drivers in src/providers, with its settings. */
export const ProviderSpec = z.discriminatedUnion('driver', PROVIDERS);
export type ProviderSpec = z.output<typeof ProviderSpec>;

/**
 * A provider as a queue or a scheduler of another version has written it: a missing field gets its default, and an
 * unknown one is left out. The API server alone judges a pod's fields here.
 */
export const KnownProviderSpec = z.discriminatedUnion(
  'driver',
  PROVIDERS.map((provider) => {
    const known = provider.strip();
    return 'pod' in known.shape ? known.extend({ pod: AnyPod, spot_pod: AnyPod }) : known;
  }) as unknown as typeof PROVIDERS,
);
