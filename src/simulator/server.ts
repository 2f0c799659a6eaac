import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { generatingApis, messagesError } from './apis.ts';
import { computedRoutes } from './computed.ts';
import { setPace } from './controls.ts';
import { type Dialect, dialectOf, type LogSink } from './dialect.ts';
import { SimulatedEngine } from './engine.ts';
import { ApiError, internalError } from './errors.ts';
import { noFaults, setFaults } from './faults.ts';
import { readJson, sendJson } from './http.ts';
import type { SimulatorOptions } from './options.ts';
import { modelList } from './shapes.ts';
import { deathLines } from './startup-log.ts';

type Handler = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

/** vLLM closes idle connections after this many ms. */
const KEEP_ALIVE_MS = 5000;

/** Matches the paths that need the API key. */
const GUARDED = /^\/(?:v1|inference)/;

/** The HTTP face of the simulated engine. */
export class SimulatedServer {
  readonly http: Server;
  /** The server of the metrics, if the dialect has a separate port for them. */
  readonly metricsHttp: Server | null;
  private readonly options: SimulatorOptions;
  private readonly dialect: Dialect;
  private readonly engine: SimulatedEngine;
  private readonly log: LogSink;
  private readonly keys: Buffer[];
  private readonly routes: Record<string, Record<string, Handler>>;
  private readonly onDeath: () => void;

  /** @param onDeath is called once the engine has died by a fault and every stream has received the error */
  constructor(options: SimulatorOptions, log: LogSink, onDeath: () => void) {
    this.options = options;
    this.dialect = dialectOf(options.dialect);
    this.engine = new SimulatedEngine(options, () => this.die());
    this.log = log;
    this.onDeath = onDeath;
    this.keys = options.apiKey.map(digest);
    this.routes = this.describeRoutes();
    this.http = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
      void this.answer(request, response);
    });
    this.metricsHttp = this.dialect.hasMetricsPort
      ? createServer((_, response) => this.answerMetrics(response))
      : null;
  }

  /** Ends every request with the engine-dead error; later ones get it too. */
  failAll(): void {
    this.engine.failAll();
  }

  private die(): void {
    for (const line of deathLines()) this.log.out(line);
    this.failAll();
    if (this.dialect.deadStatus === null) this.onDeath();
  }

  private describeRoutes(): Record<string, Record<string, Handler>> {
    const { enableScaleOut, faults, maxModelLen, model } = this.options;
    const { dialect } = this;
    const health: Handler = (_, response) => {
      const sick = this.engine.isDead
        ? (dialect.deadStatus ?? 503)
        : faults.unhealthy
          ? dialect.unhealthyStatus
          : 200;
      response.writeHead(sick, { 'content-length': 0 }).end();
    };
    const json = (body: () => unknown): Handler => {
      return (_, response) => sendJson(response, 200, body());
    };
    return {
      '/health': { GET: health },
      '/ping': { GET: health, POST: health },
      '/version': { GET: json(() => ({ version: '0.32.0' })) },
      '/load': { GET: json(() => dialect.load) },
      '/v1/models': {
        GET: json(() => modelList(this.engine.names, model, maxModelLen, this.engine.adapters.paths)),
      },
      ...(dialect.hasMetricsPort
        ? {}
        : { '/metrics': { GET: (_, response) => this.answerMetrics(response) } }),
      ...this.generatingRoutes(),
      ...(this.options.loraRoutes ? this.adapterRoutes() : {}),
      ...(this.options.enableSleepMode ? this.engine.sleep.routes() : {}),
      ...(this.engine.transfer ? this.engine.transfer.routes() : {}),
      ...computedRoutes({ names: this.engine.names, maxModelLen, enableScaleOut }),
      '/simulator/faults': {
        GET: json(() => faults),
        POST: this.control((values) => setFaults(faults, values), faults),
        DELETE: (_, response) => {
          Object.assign(faults, noFaults());
          this.engine.scheduler.settingsChanged();
          sendJson(response, 200, faults);
        },
      },
      '/simulator/pace': {
        GET: json(() => this.engine.pace),
        POST: this.control((values) => setPace(this.engine.pace, values), this.engine.pace),
      },
    };
  }

  private generatingRoutes(): Record<string, Record<string, Handler>> {
    const routes = Object.entries(generatingApis(this.options)).map(([path, apiOf]) => {
      const POST: Handler = (request, response) =>
        this.engine.generate(request, response, apiOf, () => this.http.address() as AddressInfo);
      return [path, { POST }] as const;
    });
    return Object.fromEntries(routes);
  }

  private adapterRoutes(): Record<string, Record<string, Handler>> {
    const route = (change: (body: Record<string, unknown>) => string): Record<string, Handler> => ({
      POST: async (request, response) => {
        const text = change(await readJson(request));
        response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' }).end(text);
      },
    });
    return {
      '/v1/load_lora_adapter': route((body) => this.engine.adapters.load(body)),
      '/v1/unload_lora_adapter': route((body) => this.engine.adapters.unload(body)),
    };
  }

  private answerMetrics(response: ServerResponse): void {
    const page = this.dialect.metricsPage(
      this.engine.metrics.page(this.engine.names[0]!, this.engine.scheduler),
    );
    response.writeHead(200, { 'content-type': 'text/plain; version=1.0.0; charset=utf-8' }).end(page);
  }

  /** Makes a route that changes settings, and answers with all of them as they are now. */
  private control(change: (values: Record<string, unknown>) => void, settings: object): Handler {
    return async (request, response) => {
      const values = await readJson(request);
      try {
        change(values);
      } catch (error) {
        return sendJson(response, 400, { error: (error as Error).message });
      }
      this.engine.scheduler.settingsChanged();
      sendJson(response, 200, settings);
    };
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader('server', 'uvicorn');
    // Like uvicorn, the server keeps connections alive without a header that says so.
    response.removeHeader('connection');
    const path = (request.url ?? '/').split('?')[0]!;
    const methods = this.routes[path];
    const handler = methods?.[request.method === 'HEAD' ? 'GET' : (request.method ?? '')];
    try {
      if (GUARDED.test(path) && !this.isAuthorized(request)) {
        sendJson(response, 401, { error: 'Unauthorized' });
      } else if (!methods) {
        sendJson(response, 404, { detail: 'Not Found' });
      } else if (!handler) {
        response.setHeader('allow', Object.keys(methods).join(', '));
        sendJson(response, 405, { detail: 'Method Not Allowed' });
      } else {
        await handler(request, response);
      }
    } catch (error) {
      this.answerError(path, response, error);
    }
    if (this.options.disableUvicornAccessLog) return;
    if (response.headersSent) this.logAccess(request, response);
    else response.once('close', () => this.logAccess(request, response));
  }

  private answerError(path: string, response: ServerResponse, error: unknown): void {
    if (response.destroyed || response.headersSent) return;
    const shown = error instanceof ApiError ? error : internalError(String(error));
    if (path.startsWith('/v1/messages')) return sendJson(response, shown.status, messagesError(shown));
    const { status, body } = this.dialect.errorAnswer(shown);
    sendJson(response, status, body);
  }

  private logAccess(request: IncomingMessage, response: ServerResponse): void {
    const { remoteAddress, remotePort } = request.socket;
    const status = `${response.statusCode} ${response.statusMessage ?? ''}`.trim();
    this.log.out(
      `INFO:     ${remoteAddress}:${remotePort} - "${request.method} ${request.url} HTTP/1.1" ${status}`,
    );
  }

  private isAuthorized(request: IncomingMessage): boolean {
    if (this.keys.length === 0) return true;
    const [, token] = /^bearer (.*)$/i.exec(request.headers.authorization ?? '') ?? [];
    if (token === undefined) return false;
    const given = digest(token);
    return this.keys.some((key) => timingSafeEqual(key, given));
  }
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
