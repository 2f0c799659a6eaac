import { randomUUID } from 'node:crypto';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { isIP } from 'node:net';
import { EXIT, UserError } from '../../process/index.ts';
import { isLoopback } from '../../process/network.ts';
import { bounds, JsonFault, keepMembers, utf8Text, withoutMark, writeJson } from '../../protocol/index.ts';
import { addressOf, privateAddressIn } from '../files/file-access.ts';
import type { Ports } from '../ports.ts';
import type { Platform, PlatformAnswer, PlatformPost } from './platform.ts';

/** Headers that proxies add to the requests they pass on. */
const FORWARDED_HEADERS = ['x-forwarded-for', 'forwarded', 'x-real-ip', 'x-forwarded-host', 'via'];

/**
 * Returns why a request to the local API is refused, as a queue without tokens refuses it; null: it is served. The host
 * is checked against pages that make their own name point to this machine, and the origin against pages that simply
 * call the API.
 * @param bound the address that the API listens on: if others can reach it, the operator has chosen that
 */
function refusalOf(headers: IncomingHttpHeaders, bound: string): string | null {
  const host = hostOf(`http://${headers.host ?? ''}`);
  const isOpen = !isLoopback(bound);
  const isHere =
    host !== null &&
    (isLoopback(host) || (isOpen && (host === bound || isIP(host.replace(/^\[|\]$/g, '')) !== 0)));
  if (!isHere) return `The local API serves its own address (${bound}), not "${headers.host ?? ''}".`;
  const forwarded = isOpen ? undefined : FORWARDED_HEADERS.find((name) => name in headers);
  if (forwarded)
    return `The local API serves this machine, and a proxy passed this request on (${forwarded}).`;
  const { origin } = headers;
  if (origin !== undefined && !isLoopback(hostOf(origin) ?? '')) {
    return `Web pages of ${origin} may not use the local API.`;
  }
  return null;
}

/** Returns the host of an address; null: the text is no address. */
function hostOf(url: string): string | null {
  return URL.canParse(url) ? new URL(url).hostname : null;
}

/** A receiver may take this many ms to answer. */
const WITHIN_MS = 10_000;

/** The receiver to which the outcome of a job is posted. */
interface Webhook {
  url: URL;
  authorization: string | undefined;
  mustBePublic: boolean;
}

/**
 * Returns the webhook that a caller of the local API names, if its address allows it.
 * @param hosts the only hosts allowed, whatever their addresses; null: any public one over https
 * @returns the webhook, or a text that says what is wrong with its address
 */
function webhookOf(text: string, hosts: readonly string[] | null): Webhook | string {
  if (!URL.canParse(text)) return 'its address is not a URL';
  // The local API has no queue, so no host is the queue's own.
  const access = { base: 'https://queue.invalid/', ownOrigins: new Set<string>(), token: undefined, hosts };
  const address = addressOf(text, access);
  if (!address.ok) return address.problem;
  const { url, authorization, mustBePublic } = address;
  const problem = mustBePublic ? privateAddressIn(url.hostname) : null;
  if (problem) return problem.message;
  return { url, authorization, mustBePublic };
}

/** Posts an outcome once. The connection to a name that leads to a private address is refused. Never rejects. */
async function postOutcome(
  { url, authorization, mustBePublic }: Webhook,
  outcome: object,
  { fetch, fetchPublic, log }: Pick<Ports, 'fetch' | 'fetchPublic' | 'log'>,
): Promise<void> {
  try {
    const response = await (mustBePublic ? fetchPublic : fetch)(url.href, {
      method: 'POST',
      redirect: 'manual',
      headers: { 'content-type': 'application/json', ...(authorization && { authorization }) },
      body: writeJson(outcome),
      signal: AbortSignal.timeout(WITHIN_MS),
    });
    await response.body?.cancel();
  } catch (error) {
    const { message, cause } = error as Error;
    const problem = (cause as Partial<Error> | undefined)?.message ?? message;
    log.warn({ host: url.host, problem }, 'a webhook was not taken');
  }
}

/** The outcome of a job in the form in which it would be posted. */
export interface LocalOutcome {
  /** The outputs in the order in which they came. */
  stream: unknown[];
  output?: unknown;
  error?: string;
}

const TAKEN: PlatformAnswer = { status: 200, body: undefined, problem: '' };

/** Stands in for the platform on this machine: jobs come from local requests. */
export class LocalPlatform implements Platform {
  readonly stops = null;
  readonly ping = null;
  readonly #queued: { id: string }[] = [];
  readonly #running = new Map<string, { stream: unknown[]; end: (outcome: LocalOutcome) => void }>();
  #wake: (() => void) | null = null;

  /** Queues a job, and resolves to its outcome. @param job in the form that the platform would give */
  submit(job: { id: string; input: unknown }): Promise<LocalOutcome> {
    return new Promise((end) => {
      this.#running.set(job.id, { stream: [], end });
      this.#queued.push(job);
      this.#wake?.();
    });
  }

  async take(wanted: number, _isBusy: boolean, signal: AbortSignal): Promise<PlatformAnswer> {
    if (this.#queued.length === 0 && !signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
    return { ...TAKEN, body: this.#queued.splice(0, wanted) };
  }

  async post({ to, jobId, body }: PlatformPost): Promise<PlatformAnswer> {
    const job = this.#running.get(jobId);
    const said = JSON.parse(body) as { output?: unknown; error?: string };
    keepMembers(said, Buffer.from(body), ['output']);
    if (to === 'stream') job?.stream.push(said.output);
    else {
      this.#running.delete(jobId);
      job?.end({ ...said, stream: job.stream });
    }
    return TAKEN;
  }
}

/** A submitted job that has not run: as in RunPod's SDK it runs when its status or stream is requested. */
interface Submitted {
  input: unknown;
  webhook?: Webhook;
}

/** The most jobs that are stored until somebody requests them again: each holds its input. */
const MOST_SUBMITTED = 100;

const ROUTES =
  'RunPod’s local API: POST /runsync, /run, /status/{id}, /stream/{id}, with a body {"input": …, "webhook"?: …}\n';
const NO_INPUT = { detail: [{ loc: ['body', 'input'], msg: 'field required', type: 'value_error.missing' }] };

type LocalPorts = Pick<Ports, 'fetch' | 'fetchPublic' | 'log'>;
type Answer = [status: number, body: unknown];

/** Serves `--rp_serve_api` of RunPod's SDK: its local API, for trying jobs without a platform. */
export class LocalApi {
  readonly #platform: LocalPlatform;
  readonly #ports: LocalPorts;
  readonly #webhookHosts: readonly string[] | null;
  readonly #submitted = new Map<string, Submitted>();
  readonly #server: Server;
  #host = '';

  /** @param webhookHosts the `hosts` parameter of `webhookOf` */
  constructor(platform: LocalPlatform, ports: LocalPorts, webhookHosts: readonly string[] | null) {
    this.#platform = platform;
    this.#ports = ports;
    this.#webhookHosts = webhookHosts;
    this.#server = createServer((request, response) => {
      this.#answer(request).then(
        ([status, body]) => send(response, status, body),
        // A caller that breaks off in the middle of its body does not read the answer.
        (error: Error) => send(response, 400, { detail: error.message }),
      );
    });
  }

  /** Starts to listen. @throws UserError when the address is in use */
  async listen(host: string, port: number): Promise<void> {
    this.#host = host;
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', ({ message }) =>
        reject(
          new UserError(
            `RunPod's local API cannot listen: ${message}. Set --rp_api_host or --rp_api_port.`,
            EXIT.portInUse,
          ),
        ),
      );
      // In a URL an IPv6 address has brackets, which `listen` does not accept.
      this.#server.listen(port, host.replace(/^\[(.*)\]$/, '$1'), resolve);
    });
    this.#ports.log.info({}, `RunPod's local API is at http://${host}:${port}`);
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(request: IncomingMessage): Promise<Answer> {
    const refusal = refusalOf(request.headers, this.#host);
    if (refusal !== null) return [403, { detail: refusal }];
    const [, route, id = ''] = (request.url ?? '/').split(/[/?]/);
    if (route === '') return [200, ROUTES];
    if (request.method !== 'POST') return [405, { detail: 'Method Not Allowed' }];
    if (route === 'status' || route === 'stream') return [200, await this.#run(id, route === 'stream')];
    if (route !== 'run' && route !== 'runsync') return [404, { detail: 'Not Found' }];
    const bytes = await bytesOf(request);
    if (bytes === null) return [413, { detail: `A body may have ${bounds.PAYLOAD_BYTES} bytes.` }];
    const given = submittedIn(bytes, this.#webhookHosts);
    if (given === null) return [422, NO_INPUT];
    if (typeof given === 'string') return [422, { detail: given }];
    if (route === 'run' && this.#submitted.size >= MOST_SUBMITTED) {
      return [
        429,
        { detail: `${MOST_SUBMITTED} jobs wait here: ask for the status of some, which runs them.` },
      ];
    }
    const jobId = `test-${randomUUID()}`;
    this.#submitted.set(jobId, given);
    if (route === 'run') return [200, { id: jobId, status: 'IN_PROGRESS' }];
    return [200, await this.#run(jobId, false)];
  }

  /** Runs a submitted job once, and forgets it. */
  async #run(id: string, isStream: boolean): Promise<object> {
    const submitted = this.#submitted.get(id);
    if (!submitted) return { id, status: 'FAILED', error: 'Job ID not found' };
    this.#submitted.delete(id);
    const { stream, ...outcome } = await this.#platform.submit({ id, input: submitted.input });
    if (submitted.webhook) void postOutcome(submitted.webhook, outcome, this.#ports);
    if (outcome.error !== undefined) return { id, status: 'FAILED', error: outcome.error };
    if (isStream) return { id, status: 'COMPLETED', stream: stream.map((output) => ({ output })) };
    return { id, status: 'COMPLETED', output: outcome.output };
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  const isText = typeof body === 'string';
  response.writeHead(status, {
    'content-type': isText ? 'text/plain; charset=utf-8' : 'application/json',
    // The worker does not wait for the rest of a body that it does not read.
    ...(status === 413 && { connection: 'close' }),
  });
  response.end(isText ? body : writeJson(body));
}

/** Returns the bytes of the body; null: it is larger than any input. @throws Error when the caller breaks off */
async function bytesOf(request: IncomingMessage): Promise<Buffer | null> {
  if (Number(request.headers['content-length'] ?? 0) > bounds.PAYLOAD_BYTES) return null;
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    size += piece.byteLength;
    if (size > bounds.PAYLOAD_BYTES) return null;
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** Returns the submitted job; null: the body has no input; a text: what is wrong with its bytes, or its webhook. */
function submittedIn(body: Buffer, hosts: readonly string[] | null): Submitted | string | null {
  let given: Record<string, unknown>;
  try {
    given = Object(JSON.parse(utf8Text(body)));
    keepMembers(given, withoutMark(body), ['input']);
  } catch (error) {
    return error instanceof JsonFault ? error.message : null;
  }
  const { input, webhook } = given;
  if (input === undefined) return null;
  if (typeof webhook !== 'string') return { input };
  const address = webhookOf(webhook, hosts);
  return typeof address === 'string' ? `webhook: ${address}` : { input, webhook: address };
}
