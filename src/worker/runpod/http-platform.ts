import { Agent } from 'undici';
import { Exchange } from '../../engine/client/exchange.ts';
import { chosenProxies } from '../../process/outgoing.ts';
import { manifest } from '../../process/package.ts';
import { proxyDispatcher } from '../../process/through-proxies.ts';
import { keepMembers } from '../../protocol/index.ts';
import type { Platform, PlatformAnswer } from './platform.ts';

/**
 * The addresses at which a worker of an endpoint reaches the platform, from its variables, with their parts filled in.
 */
export interface Addresses {
  take(wanted: number, isBusy: boolean): string;
  /** Returns the address that asks for no more jobs; null: it cannot be derived from the address of the take. */
  stop: ((isBusy: boolean) => string) | null;
  /** Returns the address for a job's end. @param isStream whether the job streams its outputs */
  done(jobId: string, isStream: boolean): string;
  stream(jobId: string): string;
  /** Returns the address for a ping; null: no pings are wanted. */
  ping: ((parameters: URLSearchParams) => string) | null;
}

export interface AddressTemplates {
  take: string;
  done: string;
  stream: string;
  ping: string | null;
}

const TAKE_PATH = '/job-take/';

/**
 * Fills in the templates, which are opaque except for two names in them: `$RUNPOD_POD_ID` is the worker, and `$ID` is
 * the worker in addresses where it takes jobs and the job in those where it answers. Some templates already have a
 * query.
 */
export function addressesFrom(templates: AddressTemplates, workerId: string): Addresses {
  const worker = encodeURIComponent(workerId);
  const ofWorker = (template: string) =>
    template.replaceAll('$RUNPOD_POD_ID', worker).replaceAll('$ID', worker);
  const ofJob = (template: string, jobId: string) =>
    template.replaceAll('$RUNPOD_POD_ID', worker).replaceAll('$ID', encodeURIComponent(jobId));
  const take = ofWorker(templates.take);
  const tells = take.includes(TAKE_PATH);
  return {
    take: (wanted, isBusy) => {
      if (wanted === 1 || !tells) return withQuery(take, `job_in_progress=${Number(isBusy)}`);
      const batch = take.replace(TAKE_PATH, '/job-take-batch/');
      return withQuery(batch, `batch_size=${wanted}&job_in_progress=${Number(isBusy)}`);
    },
    stop: tells
      ? (isBusy) => withQuery(take.replace(TAKE_PATH, '/job-stop/'), `job_in_progress=${Number(isBusy)}`)
      : null,
    done: (jobId, isStream) => withQuery(ofJob(templates.done, jobId), `isStream=${isStream}`),
    // This value is false too, since only the address of the end of a stream says that the job was a stream.
    stream: (jobId) => withQuery(ofJob(templates.stream, jobId), 'isStream=false'),
    ping:
      templates.ping === null
        ? null
        : (parameters) => withQuery(ofWorker(templates.ping!), parameters.toString()),
  };
}

function withQuery(address: string, query: string): string {
  return `${address}${address.includes('?') ? '&' : '?'}${query}`;
}

/** A poll may last this long without an answer, ms: as long as in RunPod's SDK, so the platform may rely on it. */
const POLL_WITHIN_MS = 90_000;
/** A post may take this long, ms, as the largest result does over a slow network. */
const POST_WITHIN_MS = 120_000;
/** The version of RunPod's SDK that these requests follow; pings name it. */
export const SDK_VERSION = '1.12.0';
const USER_AGENT = `worker-vllm/${manifest.version} (RunPod-Python-SDK/${SDK_VERSION})`;
/** A ping's list of jobs is cut after this many characters, as by the SDK. */
const PING_CHARACTERS = 65_535;
/** The most bytes of one job that the worker accepts: RunPod accepts no larger ones. */
const JOB_BYTES = 20 * 1024 * 1024;
/** The most bytes of all jobs in one answer that the worker accepts. */
const TAKE_BYTES = 256 * 1024 * 1024;
/** The most bytes of any other answer, which holds at most ids of jobs. */
const ANSWER_BYTES = 1024 * 1024;
/** A message shows this many characters of the platform's answer. */
const SHOWN_CHARACTERS = 300;

export interface HttpPlatformSettings {
  addresses: Addresses;
  /** The key, which is sent unchanged, without `Bearer`. */
  apiKey: string | undefined;
  pingIntervalMs: number;
}

/**
 * Returns the platform over HTTP. It makes no stream for an answer: a job takes three calls, and they are most of its
 * cost.
 */
export function httpPlatform({ addresses, apiKey, pingIntervalMs }: HttpPlatformSettings): Platform {
  const { stop, ping } = addresses;
  const choose = chosenProxies();
  const agent = choose ? proxyDispatcher(choose, { allowH2: false }) : new Agent({ allowH2: false });
  const headers = { 'user-agent': USER_AGENT, ...(apiKey && { authorization: apiKey }) };

  async function ask(
    url: string,
    call: Call,
    limitMs: number,
    longestBytes = ANSWER_BYTES,
    signal = new AbortController().signal,
  ): Promise<PlatformAnswer> {
    try {
      const { origin, pathname, search } = new URL(url);
      const exchange = new Exchange(signal, (error) => error);
      const limits = { headersTimeout: limitMs, bodyTimeout: limitMs };
      agent.dispatch({ method: 'GET', ...call, origin, path: pathname + search, ...limits }, exchange);
      const { status } = await exchange.head;
      const pieces: Uint8Array[] = [];
      let size = 0;
      await exchange.eachPiece((piece) => {
        size += piece.byteLength;
        if (size > longestBytes) throw new Error(`the answer has more than ${longestBytes} bytes`);
        pieces.push(piece);
      });
      return answerOf(status, Buffer.concat(pieces));
    } catch (error) {
      return {
        status: null,
        mayHaveReached: mayHaveReached(error),
        body: undefined,
        problem: (error as Error).message || String((error as { code?: unknown }).code),
      };
    }
  }

  const poll = (url: string, longestBytes: number, signal: AbortSignal) =>
    ask(
      url,
      { headers: { ...headers, 'content-type': 'application/json' } },
      POLL_WITHIN_MS,
      longestBytes,
      signal,
    );

  return {
    // The platform may give more jobs than the worker asked for.
    take: (wanted, isBusy, signal) =>
      poll(addresses.take(wanted, isBusy), Math.min(TAKE_BYTES, (wanted + 1) * JOB_BYTES), signal),
    stops: stop && ((isBusy, signal) => poll(stop(isBusy), ANSWER_BYTES, signal)),
    post: ({ to, jobId, body }, signal) =>
      ask(
        to === 'stream' ? addresses.stream(jobId) : addresses.done(jobId, true),
        {
          method: 'POST',
          headers: {
            ...headers,
            'content-type': 'application/x-www-form-urlencoded',
            charset: 'utf-8',
            // A header cannot hold all the characters that an id may have.
            'x-request-id': encodeURIComponent(jobId),
          },
          body,
        },
        POST_WITHIN_MS,
        ANSWER_BYTES,
        signal,
      ),
    ping:
      ping &&
      ((jobIds) => {
        const parameters = new URLSearchParams({ runpod_version: SDK_VERSION });
        if (jobIds.length > 0) parameters.set('job_id', jobIds.join(',').slice(0, PING_CHARACTERS));
        return ask(ping(parameters), { headers }, 2 * pingIntervalMs);
      }),
    close: () => void agent.destroy(),
  };
}

interface Call {
  method?: 'POST';
  headers: Record<string, string>;
  body?: string;
}

/** The error codes which mean that no connection was made, so that nothing was sent. */
const UNREACHED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

function mayHaveReached(error: unknown): boolean {
  const { code = '' } = Object(error) as { code?: string };
  return !UNREACHED.has(code);
}

function answerOf(status: number, bytes: Buffer): PlatformAnswer {
  const text = bytes.toString();
  const problem = `HTTP ${status}${text ? `: ${text.slice(0, SHOWN_CHARACTERS)}` : ''}`;
  try {
    const body: unknown = JSON.parse(text);
    keepMembers(body, bytes, ['input']);
    return { status, body, problem };
  } catch {
    return { status, body: undefined, problem };
  }
}
