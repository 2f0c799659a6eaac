import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import Docker from 'dockerode';
import { systemClock, withTimeout } from '../../process/clock.ts';
import { withoutCredentials } from '../../process/environment.ts';
import { UserError } from '../../process/exit-codes.ts';
import { GRACE_SECONDS, wayDownMs } from '../../process/way-down.ts';
import type { ProviderSpec } from '../../scheduler/provider-spec.ts';
import { imageOf, type LaunchRequest } from '../driver.ts';

/** The time limit of a call that the daemon answers at once, ms. */
const CALL_MS = 15_000;
/** The time limit of a start, ms: the runtime first makes the GPUs ready. */
const START_MS = 60_000;
/** The time limit of a pull, ms: an image has some ten gigabytes, and the line may be slow. */
const PULL_MS = 2 * 3600_000;
const TLS_PORT = '2376';

/** The daemon's answer with a status that means failure. */
export class EngineError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** A container in the answer of `GET /containers/json`. */
export type ListedContainer = Pick<Docker.ContainerInfo, 'Id' | 'Names' | 'Created' | 'State' | 'Labels'>;

/** A container in the answer of `GET /containers/{name}/json`. */
export interface FoundContainer {
  state: ContainerState;
  labels: Record<string, string>;
}

export interface ContainerState {
  Status: string;
  ExitCode: number;
  OOMKilled: boolean;
  Error: string;
  /** When the container started, ISO 8601; a time in the year 1 if it has not. The same holds for `FinishedAt`. */
  StartedAt: string;
  FinishedAt: string;
}

export class Engine {
  readonly #docker: Docker;

  /**
   * @param host an address as in DOCKER_HOST; undefined: the environment decides
   * @throws UserError when the address cannot be read
   */
  constructor(host: string | undefined, env: NodeJS.ProcessEnv) {
    this.#docker = new Docker(optionsOf(host ?? env.DOCKER_HOST, env));
  }

  /** Creates a container. @throws EngineError 404 without the image, 409 if the name is taken */
  async create(name: string, body: Docker.ContainerCreateOptions): Promise<void> {
    await call(CALL_MS, (abortSignal) =>
      // Query and body are separate: dockerode would put the environment into the address too.
      this.#docker.createContainer({
        _query: { name },
        _body: body,
        abortSignal,
      } as Docker.ContainerCreateOptions),
    );
  }

  /** Starts a container. A container that runs already counts as started. */
  async start(name: string): Promise<void> {
    await unless([304], () =>
      call(START_MS, (abortSignal) => this.#docker.getContainer(name).start({ abortSignal })),
    );
  }

  /**
   * Stops a container, by SIGTERM, then by SIGKILL after `seconds`, and returns once it has ended. A container that is
   * gone or has ended counts as stopped.
   */
  async stop(name: string, seconds: number): Promise<void> {
    await unless([304, 404], () =>
      call(seconds * 1000 + CALL_MS, (abortSignal) =>
        this.#docker.getContainer(name).stop({ t: seconds, abortSignal }),
      ),
    );
  }

  /** Removes a container, and kills it if it runs. A container that is gone counts as removed. */
  async remove(name: string): Promise<void> {
    await unless([404], () =>
      call(CALL_MS, (abortSignal) =>
        this.#docker.getContainer(name).remove({ force: true, v: true, abortSignal }),
      ),
    );
  }

  /** Returns a container by its name, or null. It may belong to another launcher. */
  async find(name: string): Promise<FoundContainer | null> {
    const found = await unless([404], () =>
      call(CALL_MS, (abortSignal) => this.#docker.getContainer(name).inspect({ abortSignal })),
    );
    return found && { state: found.State, labels: found.Config.Labels ?? {} };
  }

  /** Returns all containers with a label, whatever their state. */
  async list(label: string): Promise<ListedContainer[]> {
    return await call(CALL_MS, (abortSignal) =>
      this.#docker.listContainers({ all: true, filters: { label: [label] }, abortSignal }),
    );
  }

  /** Returns the last lines that a container wrote to both streams. */
  async log(name: string, lines: number): Promise<string> {
    const bytes = await call(CALL_MS, (abortSignal) =>
      this.#docker
        .getContainer(name)
        .logs({ follow: false, stdout: true, stderr: true, tail: lines, abortSignal }),
    );
    return textOf(bytes).trimEnd();
  }

  /**
   * Downloads an image.
   * @param onProgress takes the step that is under way: `Downloading`, `Extracting`, …
   * @throws EngineError 4xx if the registry refuses the image, 5xx for anything else, such as a registry that does not
   * answer
   */
  async pull(image: string, onProgress: (text: string) => void, ended: AbortSignal): Promise<void> {
    await told(() =>
      call(
        PULL_MS,
        async (signal) => {
          const stream: NodeJS.ReadableStream = await this.#docker.pull(image, { abortSignal: signal });
          for await (const line of createInterface({ input: stream })) {
            const step: { status?: string; progress?: string; error?: string } = JSON.parse(line || '{}');
            if (step.error) throw new EngineError(500, step.error);
            if (step.status) onProgress(`${step.status} ${step.progress ?? ''}`.trim());
          }
          signal.throwIfAborted();
        },
        ended,
      ),
    );
  }
}

/**
 * Matches the messages of a pull that the registry refused: the codes of the registry's interface (OCI distribution,
 * "Error Codes"), and the daemon's own words. The daemon answers such a pull with 500 too, or reports it within a body
 * of 200.
 */
const REFUSED =
  /manifest unknown|not found|denied|unauthorized|authentication required|no matching manifest/i;

/** Runs a pull. @throws EngineError 404 for a pull that the registry refused */
async function told(pull: () => Promise<void>): Promise<void> {
  try {
    await pull();
  } catch (error) {
    if (error instanceof EngineError && REFUSED.test(error.message))
      throw new EngineError(404, error.message);
    throw error;
  }
}

function optionsOf(host: string | undefined, env: NodeJS.ProcessEnv): Docker.DockerOptions | undefined {
  // Without a host, dockerode searches itself: /var/run/docker.sock, or the one of Docker Desktop.
  if (!host) return undefined;
  if (host.startsWith('unix://')) return { socketPath: host.slice('unix://'.length) };
  const url = URL.canParse(host) ? new URL(host) : null;
  if (url?.protocol !== 'tcp:') {
    const shown = withoutCredentials(host);
    throw new UserError(`Docker cannot be reached at "${shown}": expected unix:///path or tcp://host:port.`);
  }
  const isTls = url.port === TLS_PORT || !!env.DOCKER_TLS_VERIFY;
  const folder = env.DOCKER_CERT_PATH;
  const file = (name: string) => readFileSync(join(folder!, name));
  return {
    // dockerode takes an IPv6 address without the brackets that it has in a URL.
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port || (isTls ? TLS_PORT : 2375),
    protocol: isTls ? 'https' : 'http',
    ...(isTls && folder ? { ca: file('ca.pem'), cert: file('cert.pem'), key: file('key.pem') } : {}),
  };
}

/** Makes one call. @throws EngineError for a status, Error when there was no answer */
async function call<T>(
  limitMs: number,
  ask: (signal: AbortSignal) => Promise<T>,
  ended?: AbortSignal,
): Promise<T> {
  try {
    return await withTimeout(systemClock, limitMs, ask, { signal: ended });
  } catch (error) {
    const { statusCode, json, message } = error as {
      statusCode?: number;
      json?: { message?: string };
      message: string;
    };
    if (statusCode === undefined) throw error;
    throw new EngineError(statusCode, json?.message ?? message);
  }
}

/** Returns what `ask` returns, or null if the daemon answered with one of these statuses. */
async function unless<T>(statuses: number[], ask: () => Promise<T>): Promise<T | null> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof EngineError && statuses.includes(error.status)) return null;
    throw error;
  }
}

/**
 * Returns the text of a log. Without a terminal each piece has a head of eight bytes: the stream, three zeros, its
 * length (API, "attach").
 */
function textOf(bytes: Buffer): string {
  const pieces: Buffer[] = [];
  for (let at = 0; at + 8 <= bytes.length; ) {
    const isHead = bytes[at]! <= 2 && bytes.readUIntBE(at + 1, 3) === 0;
    if (!isHead) return bytes.toString('utf8');
    const length = bytes.readUInt32BE(at + 4);
    pieces.push(bytes.subarray(at + 8, at + 8 + length));
    at += 8 + length;
  }
  return Buffer.concat(pieces).toString('utf8');
}

type DockerSpec = Extract<ProviderSpec, { driver: 'docker' }>;

/** The label by which our containers are found. Its value is the name, which is the container's too. */
export const NAME_LABEL = 'worker-vllm.name';
/** The label with the indices of a container's GPUs: Docker reserves none. */
export const GPUS_LABEL = 'worker-vllm.gpus';
/** The label with the seconds that the worker has to finish its jobs. */
const GRACE_LABEL = 'worker-vllm.grace';

/** Returns the container that the daemon is asked to create. */
export function containerOf(request: LaunchRequest, gpus: number[], { network, volumes }: DockerSpec) {
  const { name, env } = request;
  const grace = String(env.CASOLA_SHUTDOWN_GRACE_PERIOD ?? GRACE_SECONDS);
  const devices = {
    Driver: 'nvidia',
    DeviceIDs: gpus.map(String),
    Capabilities: [['gpu']],
  };
  return {
    Image: imageOf(request),
    Env: Object.entries(env).map(([variable, value]) => `${variable}=${value}`),
    Labels: { [NAME_LABEL]: name, [GPUS_LABEL]: gpus.join(','), [GRACE_LABEL]: grace },
    StopTimeout: secondsToStop(grace),
    HostConfig: {
      DeviceRequests: gpus.length > 0 ? [devices] : [],
      // The host's shared memory is used because vLLM's processes share memory.
      IpcMode: 'host',
      Binds: volumes,
      ...(network ? { NetworkMode: network } : {}),
      // With this host name, workers reach a queue on the host.
      ...(network === 'host' ? {} : { ExtraHosts: ['host.docker.internal:host-gateway'] }),
      // The scheduler decides what runs, and the exit code and log of an ended container are needed.
      RestartPolicy: { Name: 'no' },
      AutoRemove: false,
      Init: true,
    },
  };
}

/** Returns how long a container may take to end, s. */
export function graceOf({ Labels }: ListedContainer): number {
  return secondsToStop(Labels[GRACE_LABEL]);
}

function secondsToStop(grace: string | undefined): number {
  return Math.ceil(wayDownMs(Number(grace ?? GRACE_SECONDS) * 1000) / 1000);
}

export function gpusOf({ Labels }: ListedContainer): number[] {
  return (Labels[GPUS_LABEL] ?? '').split(',').filter(Boolean).map(Number);
}

export function nameOf({ Labels }: ListedContainer): string {
  return Labels[NAME_LABEL] ?? '';
}
