import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import Docker from 'dockerode';
import { systemClock } from '../../process/clock.ts';
import { withoutCredentials } from '../../process/environment.ts';
import { UserError } from '../../process/exit-codes.ts';
import { withTimeout } from '../../process/timeout.ts';

/** What the daemon is asked, as far as this driver does: https://docs.docker.com/reference/api/engine/ */

/** A call that the daemon answers at once, ms. */
const CALL_MS = 15_000;
/** A start waits for the runtime to make the GPUs ready, ms. */
const START_MS = 60_000;
/** An image of some ten gigabytes over a slow line, ms. */
const PULL_MS = 2 * 3600_000;
const TLS_PORT = '2376';

/** The daemon answered with a status that means failure. */
export class EngineError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Of `GET /containers/json`. */
export type ListedContainer = Pick<Docker.ContainerInfo, 'Id' | 'Names' | 'Created' | 'State' | 'Labels'>;

/** Of `GET /containers/{name}/json`. */
export interface FoundContainer {
  state: ContainerState;
  labels: Record<string, string>;
}

export interface ContainerState {
  Status: string;
  ExitCode: number;
  OOMKilled: boolean;
  Error: string;
  /** ISO 8601; the year 1 where it has not happened. */
  StartedAt: string;
  FinishedAt: string;
}

export class Engine {
  readonly #docker: Docker;

  /**
   * @param host as DOCKER_HOST; undefined: what the environment says
   * @throws UserError when it cannot be read
   */
  constructor(host: string | undefined, env: NodeJS.ProcessEnv) {
    this.#docker = new Docker(optionsOf(host ?? env.DOCKER_HOST, env));
  }

  /** @throws EngineError 404 without the image, 409 where the name is taken */
  async create(name: string, body: Docker.ContainerCreateOptions): Promise<void> {
    await call(CALL_MS, (abortSignal) =>
      // As query and body: dockerode would put the environment into the address too.
      this.#docker.createContainer({
        _query: { name },
        _body: body,
        abortSignal,
      } as Docker.ContainerCreateOptions),
    );
  }

  /** One that runs already is fine. */
  async start(name: string): Promise<void> {
    await unless([304], () =>
      call(START_MS, (abortSignal) => this.#docker.getContainer(name).start({ abortSignal })),
    );
  }

  /** Returns once it has ended: SIGTERM, then SIGKILL after `seconds`. One that is gone or has ended is fine. */
  async stop(name: string, seconds: number): Promise<void> {
    await unless([304, 404], () =>
      call(seconds * 1000 + CALL_MS, (abortSignal) =>
        this.#docker.getContainer(name).stop({ t: seconds, abortSignal }),
      ),
    );
  }

  /** Kills it where it runs. One that is gone is fine. */
  async remove(name: string): Promise<void> {
    await unless([404], () =>
      call(CALL_MS, (abortSignal) =>
        this.#docker.getContainer(name).remove({ force: true, v: true, abortSignal }),
      ),
    );
  }

  /** Null: there is none. The container may be another launcher's. */
  async find(name: string): Promise<FoundContainer | null> {
    const found = await unless([404], () =>
      call(CALL_MS, (abortSignal) => this.#docker.getContainer(name).inspect({ abortSignal })),
    );
    return found && { state: found.State, labels: found.Config.Labels ?? {} };
  }

  /** All with a label, whatever their state. */
  async list(label: string): Promise<ListedContainer[]> {
    return await call(CALL_MS, (abortSignal) =>
      this.#docker.listContainers({ all: true, filters: { label: [label] }, abortSignal }),
    );
  }

  /** The end of what it wrote, both streams. */
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
   * @param onProgress what to show of it: `Downloading`, `Extracting`, …
   * @throws EngineError 4xx where the registry refuses it, 5xx for anything else, a registry that does not
   *   answer for one
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
 * The daemon answers 500 to what a registry refuses too, or tells of it within a body of 200. By the codes of the
 * registry's interface (OCI distribution, "Error Codes"), and the daemon's own words.
 */
const REFUSED =
  /manifest unknown|not found|denied|unauthorized|authentication required|no matching manifest/i;

/** @throws EngineError 404 for a pull that the registry refused */
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
  // dockerode's own search: /var/run/docker.sock, or the one of Docker Desktop.
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

/** @throws EngineError for a status, Error when there was no answer */
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

/** Null where the daemon answered one of these. */
async function unless<T>(statuses: number[], ask: () => Promise<T>): Promise<T | null> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof EngineError && statuses.includes(error.status)) return null;
    throw error;
  }
}

/** Without a terminal each piece has a head of eight bytes: the stream, three zeros, its length (API, "attach"). */
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
