import { existsSync } from 'node:fs';
import {
  ApiException,
  type ConfigurationOptions,
  CoreV1Api,
  KubeConfig,
  Observable,
  type ObservableMiddleware,
} from '@kubernetes/client-node';
import * as z from 'zod';
import { sleep } from '../../process/clock.ts';
import { UserError } from '../../process/exit-codes.ts';
import { reasonOf } from '../../process/http.ts';
import { jsonOrText } from '../../protocol/fields.ts';
import { schemaWords } from '../../protocol/schema-words.ts';
import type { LaunchOutcome, ListedMachine } from '../../scheduler/rpc.ts';
import type { Driver, DriverPorts, LaunchRequest, MachineKey, MakeDriver } from '../driver.ts';
import { CALL_LIMIT_MS, lookAfter, NoAnswerError, unknownFrom } from '../rest.ts';
import { MANAGED_BY, machineOf, PodShape, podOf } from './pod.ts';

const PodList = z.object({
  metadata: z.object({ _continue: z.string().nullish() }).nullish(),
  items: z.array(PodShape),
});
/** The body of an error of the API server. */
const Status = z.object({ reason: z.string().catch(''), message: z.string().catch('') });

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';
const REQUEST_LIMIT_MS = 10_000;
const PAGE = 500;
/** The pause between two looks by name after a create with an unknown outcome, ms. */
const LOOK_PAUSE_MS = 1000;

type Spec = Parameters<MakeDriver<'kubernetes'>>[0];

export const makeKubernetes: MakeDriver<'kubernetes'> = (spec, ports) => {
  const config = configOf(spec, ports.env);
  const namespace = spec.namespace ?? config.getContextObject(config.currentContext)?.namespace ?? 'default';
  return new Kubernetes(config.makeApiClient(CoreV1Api), namespace, spec, ports);
};

/**
 * Returns the service account inside a cluster, whose token is read again as it changes, else a kubeconfig.
 * @throws UserError when neither exists, or the context does not
 */
function configOf({ context }: Spec, env: NodeJS.ProcessEnv): KubeConfig {
  const config = new KubeConfig();
  const isInside = env.KUBERNETES_SERVICE_HOST && existsSync(`${SERVICE_ACCOUNT}/token`);
  try {
    if (env.KUBECONFIG) config.loadFromFile(env.KUBECONFIG);
    else if (isInside && !context) config.loadFromCluster();
    else config.loadFromDefault();
  } catch (error) {
    throw new UserError(`The kubeconfig cannot be read: ${reasonOf(error)}`);
  }
  if (context) {
    const known = config.getContexts().map(({ name }) => name);
    if (!known.includes(context)) {
      throw new UserError(`The kubeconfig has no context "${context}", only ${known.join(', ') || 'none'}.`);
    }
    config.setCurrentContext(context);
  }
  const cluster = config.getCurrentCluster();
  if (!cluster) throw new UserError('The kubeconfig names no cluster: set KUBECONFIG.');
  // A client with another kind of address would refuse each call.
  if (
    !cluster.server?.startsWith('https://') &&
    !(cluster.server?.startsWith('http://') && cluster.skipTLSVerify)
  ) {
    throw new UserError(
      `The kubeconfig's cluster "${cluster.name}" has the server ${cluster.server}: an address with https:// is needed, or insecure-skip-tls-verify: true beside http://.`,
    );
  }
  return config;
}

/**
 * A driver that makes a pod for each launch. The pod's name is the idempotency key: the API server refuses a second pod
 * of that name. A container that ended is not started again, so that its exit code stays readable until the pod is
 * deleted.
 */
class Kubernetes implements Driver {
  readonly #api: CoreV1Api;
  readonly #namespace: string;
  readonly #spec: Spec;
  readonly #ports: DriverPorts;

  constructor(api: CoreV1Api, namespace: string, spec: Spec, ports: DriverPorts) {
    this.#api = api;
    this.#namespace = namespace;
    this.#spec = spec;
    this.#ports = ports;
  }

  async launch(request: LaunchRequest): Promise<LaunchOutcome> {
    const namespace = this.#namespace;
    const body = podOf(request, this.#spec);
    try {
      const pod = await this.#call('create a pod', (options) =>
        this.#api.createNamespacedPod({ namespace, body }, options),
      );
      return launched(read('the new pod', PodShape, pod));
    } catch (error) {
      return await this.#afterError(request.name, error);
    }
  }

  async #afterError(name: string, error: unknown): Promise<LaunchOutcome> {
    if (!(error instanceof RefusedError)) return await this.#lookAfter(name, error);
    const { status, reason, message: detail } = error;
    if (status === 409) return await this.#lookAfter(name, new NoAnswerError(detail));
    if (status === 429) return { kind: 'unknown', detail };
    // A ResourceQuota is exceeded: others of the namespace use it now.
    if (status === 403 && /exceeded quota/i.test(detail)) return { kind: 'no_capacity', detail };
    if (status >= 400 && status < 500) {
      const hint =
        reason === 'Forbidden' ? ' (see deploy/kubernetes/launcher.yaml for the role it needs)' : '';
      return { kind: 'rejected', detail: `${detail}${hint}` };
    }
    return await this.#lookAfter(name, new NoAnswerError(detail));
  }

  /** Looks for the pod after its create did not get the expected answer. */
  #lookAfter(name: string, cause: unknown): Promise<LaunchOutcome> {
    return lookAfter(this.#ports.clock, LOOK_PAUSE_MS, cause, async () => {
      const pod = await this.#find(name);
      return pod && launched(pod);
    });
  }

  /** Finds a pod by its name. @throws NoAnswerError */
  async #find(name: string): Promise<PodShape | null> {
    try {
      const pod = await this.#call('read a pod', (options) =>
        this.#api.readNamespacedPod({ name, namespace: this.#namespace }, options),
      );
      return read('the pod', PodShape, pod);
    } catch (error) {
      if (isNotFound(error)) return null;
      throw error;
    }
  }

  async list(prefix: string): Promise<ListedMachine[]> {
    const now = this.#ports.clock.now();
    const pods = await this.#pods().catch((error) => {
      if (error instanceof RefusedError && error.status === 410) return this.#pods();
      throw error;
    });
    return pods.filter(({ metadata }) => metadata.name.startsWith(prefix)).map((pod) => machineOf(pod, now));
  }

  /**
   * Returns all pods. The pages show the state at the first page, which the API server forgets after minutes: then it
   * answers 410.
   */
  async #pods(): Promise<PodShape[]> {
    const pods: PodShape[] = [];
    let _continue: string | undefined;
    do {
      const page = await this.#call('list pods', (options) =>
        this.#api.listNamespacedPod(
          {
            namespace: this.#namespace,
            labelSelector: `${MANAGED_BY.label}=${MANAGED_BY.value}`,
            limit: PAGE,
            ...(_continue ? { _continue } : {}),
          },
          options,
        ),
      );
      const { items, metadata } = read('the list of pods', PodList, page);
      pods.push(...items);
      _continue = metadata?._continue || undefined;
    } while (_continue);
    return pods;
  }

  /**
   * Deletes the pod. An accepted delete ends nothing yet: the pod exists until its node says that its containers have
   * ended, at once if it has no node, within its grace, or never while the node is lost.
   */
  async terminate({ name, external_id }: MachineKey): Promise<LaunchOutcome> {
    const namespace = this.#namespace;
    // A pod of that name with another id must stay.
    const body = external_id === null ? {} : { preconditions: { uid: external_id } };
    try {
      await this.#call('delete a pod', (options) =>
        this.#api.deleteNamespacedPod({ name, namespace, body }, options),
      ).catch((error) => {
        // The next look shows whether the id was another pod's.
        if (!(isNotFound(error) || (error instanceof RefusedError && error.status === 409))) throw error;
      });
      const pod = await this.#find(name);
      const isThere = pod !== null && (external_id === null || pod.metadata.uid === external_id);
      return { kind: isThere ? 'terminating' : 'terminated' };
    } catch (error) {
      return unknownFrom(error);
    }
  }

  /** Makes one call. @throws RefusedError when the API server refused, NoAnswerError when it did not answer */
  async #call<T>(what: string, send: (options: ConfigurationOptions) => Promise<T>): Promise<T> {
    const until = this.#ports.clock.now() + CALL_LIMIT_MS;
    while (true) {
      try {
        return await send(withinLimit());
      } catch (error) {
        if (!(error instanceof ApiException)) {
          throw new NoAnswerError(
            `the Kubernetes API did not answer the request to ${what}: ${reasonOf(error)}`,
          );
        }
        const refused = new RefusedError(what, error);
        if (error.code !== 429) throw refused;
        const pauseMs = 1000 * (Number(error.headers['retry-after']) || 1);
        if (this.#ports.clock.now() + pauseMs > until) throw refused;
        await sleep(this.#ports.clock, pauseMs);
      }
    }
  }
}

/** A refusal of the API server, with its reason. */
class RefusedError extends NoAnswerError {
  readonly status: number;
  readonly reason: string;

  constructor(what: string, { code, body }: ApiException<unknown>) {
    const { reason, message } = Status.catch({ reason: '', message: '' }).parse(
      // The client returns the body of an error as text.
      typeof body === 'string' ? jsonOrText(body) : body,
    );
    super(`the Kubernetes API answered the request to ${what} with ${code}${message ? `: ${message}` : ''}`);
    this.status = code;
    this.reason = reason;
  }
}

/** Returns whether the API server itself says that the pod does not exist: a proxy in front of it answers 404 too. */
function isNotFound(error: unknown): boolean {
  return error instanceof RefusedError && error.status === 404 && error.reason === 'NotFound';
}

function withinLimit(): ConfigurationOptions {
  const limit: ObservableMiddleware = {
    pre: (request) => {
      request.setSignal(AbortSignal.timeout(REQUEST_LIMIT_MS));
      return new Observable(Promise.resolve(request));
    },
    post: (response) => new Observable(Promise.resolve(response)),
  };
  return { middleware: [limit], middlewareMergeStrategy: 'append' };
}

function read<Schema extends z.ZodType>(what: string, schema: Schema, answer: unknown): z.output<Schema> {
  const result = schema.safeParse(answer, { error: schemaWords });
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new NoAnswerError(
    `the Kubernetes API described ${what} in a form that this version does not know (${issue?.path.join('.')}: ${issue?.message})`,
  );
}

function launched({ metadata }: PodShape): LaunchOutcome {
  return { kind: 'launched', external_id: metadata.uid, price_per_hour: null };
}
