import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { text } from 'node:stream/consumers';
import { EXIT, UserError } from '../../process/index.ts';
import { keepMembers, writeJson } from '../../protocol/index.ts';
import type { Ports } from '../ports.ts';
import type { LocalOutcome, LocalPlatform } from './local-platform.ts';

/** What was submitted and has not run: as in RunPod's SDK it runs when its status or stream is asked for. */
interface Submitted {
  input: unknown;
  webhook?: string;
}

const ROUTES =
  'RunPod’s local API: POST /runsync, /run, /status/{id}, /stream/{id}, with a body {"input": …, "webhook"?: …}\n';
const NO_INPUT = { detail: [{ loc: ['body', 'input'], msg: 'field required', type: 'value_error.missing' }] };

/** `--rp_serve_api` of RunPod's SDK: its local API, for trying jobs without a platform. */
export class LocalApi {
  readonly #platform: LocalPlatform;
  readonly #ports: Pick<Ports, 'fetch' | 'log'>;
  readonly #submitted = new Map<string, Submitted>();
  readonly #server: Server;

  constructor(platform: LocalPlatform, ports: Pick<Ports, 'fetch' | 'log'>) {
    this.#platform = platform;
    this.#ports = ports;
    this.#server = createServer(async (request, response) => {
      const [status, body] = await this.#answer(request);
      const isText = typeof body === 'string';
      response.writeHead(status, {
        'content-type': isText ? 'text/plain; charset=utf-8' : 'application/json',
      });
      response.end(isText ? body : writeJson(body));
    });
  }

  /** @throws UserError when the address is in use */
  async listen(host: string, port: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', ({ message }) =>
        reject(
          new UserError(`RunPod's local API cannot listen: ${message}. Set --rp_api_port.`, EXIT.portInUse),
        ),
      );
      this.#server.listen(port, host, resolve);
    });
    this.#ports.log.info({}, `RunPod's local API is at http://${host}:${port}`);
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(request: IncomingMessage): Promise<[status: number, body: unknown]> {
    const [, route, id = ''] = (request.url ?? '/').split(/[/?]/);
    if (route === '') return [200, ROUTES];
    if (request.method !== 'POST') return [405, { detail: 'Method Not Allowed' }];
    if (route === 'status' || route === 'stream') return [200, await this.#run(id, route === 'stream')];
    if (route !== 'run' && route !== 'runsync') return [404, { detail: 'Not Found' }];
    const given = submittedIn(await text(request));
    if (given === null) return [422, NO_INPUT];
    const jobId = `test-${randomUUID()}`;
    this.#submitted.set(jobId, given);
    if (route === 'run') return [200, { id: jobId, status: 'IN_PROGRESS' }];
    return [200, await this.#run(jobId, false)];
  }

  /** Once: then it is forgotten. */
  async #run(id: string, isStream: boolean): Promise<object> {
    const submitted = this.#submitted.get(id);
    if (!submitted) return { id, status: 'FAILED', error: 'Job ID not found' };
    this.#submitted.delete(id);
    const outcome = await this.#platform.submit({ id, input: submitted.input });
    if (submitted.webhook) void this.#tell(submitted.webhook, outcome);
    if (outcome.error !== undefined) return { id, status: 'FAILED', error: outcome.error };
    if (isStream) return { id, status: 'COMPLETED', stream: outcome.stream.map((output) => ({ output })) };
    return { id, status: 'COMPLETED', output: outcome.output };
  }

  async #tell(webhook: string, { stream: _stream, ...outcome }: LocalOutcome): Promise<void> {
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: writeJson(outcome),
    };
    const failed = (error: Error) =>
      this.#ports.log.warn({ webhook, problem: error.message }, 'a webhook was not taken');
    await this.#ports.fetch(webhook, init).then((response) => response.body?.cancel(), failed);
  }
}

/** Null: there is no input in it. */
function submittedIn(body: string): Submitted | null {
  try {
    const given = Object(JSON.parse(body)) as Record<string, unknown>;
    keepMembers(given, Buffer.from(body), ['input']);
    const { input, webhook } = given;
    if (input === undefined) return null;
    return { input, ...(typeof webhook === 'string' && { webhook }) };
  } catch {
    return null;
  }
}
