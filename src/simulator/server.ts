import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { LoadedAdapters } from './adapters.ts';
import { failedAnswer, sendJson, streamedAnswer, wholeAnswer } from './answers.ts';
import { type ApiOf, generatingApis } from './apis.ts';
import { readJson } from './bodies.ts';
import { computedRoutes } from './computed-routes.ts';
import { type Dialect, dialectOf } from './dialect.ts';
import { ApiError, engineBusy, engineDead, internalError } from './errors.ts';
import { noFaults, setFaults } from './faults.ts';
import { KvTransfer } from './kv-transfer.ts';
import type { LogSink } from './log.ts';
import { messagesError } from './messages.ts';
import { Metrics } from './metrics.ts';
import type { SimulatorOptions } from './options.ts';
import { setPace, systemClock } from './pace.ts';
import { fitToModel } from './requests.ts';
import { begunResponse, KeptResponses } from './responses.ts';
import { type Pace, Scheduler } from './scheduler.ts';
import { modelList } from './shapes.ts';
import { Sleep } from './sleep.ts';
import { deathLines } from './startup-log.ts';
import { seedFrom, tokenSource } from './text.ts';

type Handler = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

/** vLLM closes idle connections after this time. */
const KEEP_ALIVE_MS = 5000;

/** The HTTP face of the simulated engine. */
export class SimulatedServer {
  readonly http: Server;
  /** Where the dialect has a port of its own for the metrics. */
  readonly metricsHttp: Server | null;
  private readonly options: SimulatorOptions;
  private readonly dialect: Dialect;
  private readonly names: string[];
  private readonly adapters: LoadedAdapters;
  private readonly sleep = new Sleep();
  private readonly log: LogSink;
  private readonly pace: Pace;
  private readonly metrics = new Metrics();
  private readonly scheduler: Scheduler;
  private readonly keys: Buffer[];
  private readonly routes: Record<string, Record<string, Handler>>;
  private readonly responses = new KeptResponses();
  private readonly transfer: KvTransfer | null;
  private readonly onDeath: () => void;
  private dead = false;

  /** @param onDeath called once the engine has died by a fault and every stream has been told */
  constructor(options: SimulatorOptions, log: LogSink, onDeath: () => void) {
    this.options = options;
    this.dialect = dialectOf(options.dialect);
    this.names = options.servedModelNames.length > 0 ? options.servedModelNames : [options.model];
    this.adapters = new LoadedAdapters(this.names, options.enableLora);
    this.log = log;
    this.transfer = options.kvTransfer && new KvTransfer(options.kvTransfer);
    this.onDeath = onDeath;
    this.keys = options.apiKeys.map(digest);
    this.pace = {
      time_to_first_token_ms: options.timeToFirstTokenMs,
      inter_token_latency_ms: options.interTokenLatencyMs,
    };
    this.scheduler = new Scheduler({
      maxRunning: options.maxRunning,
      pace: this.pace,
      faults: options.faults,
      metrics: this.metrics,
      clock: systemClock,
      onDeath: () => this.die(),
    });
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
    this.dead = true;
    this.scheduler.failAll();
  }

  private die(): void {
    for (const line of deathLines()) this.log.out(line);
    this.failAll();
    if (this.dialect.deadStatus === null) this.onDeath();
  }

  private describeRoutes(): Record<string, Record<string, Handler>> {
    const { faults, maxModelLength, model } = this.options;
    const { dialect } = this;
    const health: Handler = (_, response) => {
      const sick = this.dead ? (dialect.deadStatus ?? 503) : faults.unhealthy ? dialect.unhealthyStatus : 200;
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
      '/v1/models': { GET: json(() => modelList(this.names, model, maxModelLength, this.adapters.paths)) },
      ...(dialect.hasMetricsPort
        ? {}
        : { '/metrics': { GET: (_, response) => this.answerMetrics(response) } }),
      ...this.generatingRoutes(),
      ...(this.options.loraRoutes ? this.adapterRoutes() : {}),
      ...(this.options.enableSleep ? this.sleep.routes() : {}),
      ...(this.transfer ? this.transfer.routes() : {}),
      ...computedRoutes({ names: this.names, maxModelLength }),
      '/simulator/faults': {
        GET: json(() => faults),
        POST: this.control((values) => setFaults(faults, values), faults),
        DELETE: (_, response) => {
          Object.assign(faults, noFaults());
          this.scheduler.settingsChanged();
          sendJson(response, 200, faults);
        },
      },
      '/simulator/pace': {
        GET: json(() => this.pace),
        POST: this.control((values) => setPace(this.pace, values), this.pace),
      },
    };
  }

  private generatingRoutes(): Record<string, Record<string, Handler>> {
    const routes = Object.entries(generatingApis(this.responses)).map(([path, apiOf]) => {
      const POST: Handler = (request, response) => this.generate(request, response, apiOf);
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
      '/v1/load_lora_adapter': route((body) => this.adapters.load(body)),
      '/v1/unload_lora_adapter': route((body) => this.adapters.unload(body)),
    };
  }

  /** `/v1/responses/{id}` and its cancellation; null for any other path. */
  private responseRoutes(path: string): Record<string, Handler> | null {
    const [, id, cancel] = /^\/v1\/responses\/([^/]+)(\/cancel)?$/.exec(path) ?? [];
    if (id === undefined) return null;
    if (cancel) return { POST: (_, response) => sendJson(response, 200, this.responses.cancel(id)) };
    return { GET: (_, response) => sendJson(response, 200, this.responses.get(id)) };
  }

  private answerMetrics(response: ServerResponse): void {
    const page = this.dialect.metricsPage(this.metrics.page(this.names[0]!, this.scheduler));
    response.writeHead(200, { 'content-type': 'text/plain; version=1.0.0; charset=utf-8' }).end(page);
  }

  /** A route that changes settings; its answer is all of them as they are now. */
  private control(change: (values: Record<string, unknown>) => void, settings: object): Handler {
    return async (request, response) => {
      const values = await readJson(request);
      try {
        change(values);
      } catch (error) {
        return sendJson(response, 400, { error: (error as Error).message });
      }
      this.scheduler.settingsChanged();
      sendJson(response, 200, settings);
    };
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader('server', 'uvicorn');
    // Keep-alive is meant without being said, as uvicorn does.
    response.removeHeader('connection');
    const path = (request.url ?? '/').split('?')[0]!;
    const methods = this.routes[path] ?? this.responseRoutes(path);
    const handler = methods?.[request.method === 'HEAD' ? 'GET' : (request.method ?? '')];
    try {
      if (path.startsWith('/v1') && !this.isAuthorized(request)) {
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
    if (!this.options.accessLog) return;
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

  private async generate(request: IncomingMessage, response: ServerResponse, apiOf: ApiOf): Promise<void> {
    const body = await readJson(request);
    await this.sleep.awake;
    const { shapes, read } = apiOf(body);
    const asked = read(body, this.adapters.names);
    const adapter = this.adapters.paths.has(String(body.model)) ? String(body.model) : null;
    const maxTokens = fitToModel(asked, this.options.maxModelLength);
    const choices = asked.prompts.flatMap((prompt) => Array.from({ length: asked.n }, () => prompt));
    this.admit(choices.length);
    const params = Object(body.kv_transfer_params);
    const blocks = await this.transfer?.read(params, choices[0]!.ids.length);
    if (response.destroyed) return;
    if (blocks?.case === 'fatal') {
      this.die();
      throw engineDead();
    }
    if (blocks?.case === 'read') this.metrics.externalTokens += blocks.ids.length;

    const id =
      shapes.newId?.() ??
      request.headers['x-request-id'] ??
      asked.requestId ??
      randomBytes(8).toString('hex');
    const head = {
      id: `${shapes.idPrefix}${id}`,
      model: adapter ?? this.names[0]!,
      created: Math.floor(Date.now() / 1000),
    };
    const plan = {
      response,
      shapes,
      head,
      prefixes: choices.map(({ text }) => (asked.echo ? text : '')),
      prompts: choices.map(({ ids }) => (asked.returnTokenIds ? ids : null)),
      promptTokens: asked.prompts.reduce((sum, { ids }) => sum + ids.length, 0),
      includeUsage: asked.includeUsage,
      continuousUsage: asked.continuousUsage,
      handOver:
        this.transfer && params.do_remote_decode === true
          ? (made: readonly number[]) =>
              this.transfer!.keep(
                [...choices[0]!.ids, ...made.slice(0, -1)],
                this.http.address() as AddressInfo,
              )
          : null,
    };
    if (blocks?.case === 'lost' && this.transfer?.config.policy === 'fail')
      return failedAnswer(plan, asked.stream);
    const isBackground = body.background === true && shapes.newId !== undefined && !asked.stream;
    const receivers = isBackground
      ? [this.responses.receiver(head, plan.promptTokens)]
      : asked.stream
        ? streamedAnswer(plan)
        : wholeAnswer(plan);
    const aborts = choices.map(({ ids: own }, index) => {
      const ids = blocks?.case === 'read' ? blocks.ids : own;
      return this.scheduler.add({
        promptTokens: ids.length,
        maxTokens,
        minTokens: asked.minTokens,
        ignoreEos: asked.ignoreEos,
        stop: asked.stop,
        includeStop: asked.includeStop,
        source: tokenSource(adapter === null ? ids : [seedFrom(adapter), ...ids], saltOf(asked.salt, index)),
        receiver: receivers[index]!,
      });
    });
    const abort = () => {
      for (const one of aborts) one();
    };
    if (isBackground) {
      sendJson(response, 200, this.responses.keep(begunResponse(head, 'queued'), abort));
      return;
    }
    response.once('close', () => {
      if (!response.writableFinished) abort();
    });
  }

  /** @throws ApiError when the engine does not take so many sequences more */
  private admit(sequences: number): void {
    const { faults, maxQueued } = this.options;
    if (this.dead) throw engineDead();
    if (faults.refuse) throw engineBusy();
    if (faults.error_500 > 0) {
      faults.error_500--;
      throw internalError('Simulated failure of one request (fault error_500).');
    }
    if (maxQueued !== null && this.scheduler.running + this.scheduler.waiting + sequences > maxQueued) {
      this.metrics.rejections++;
      throw engineBusy();
    }
  }
}

/** Choices of one prompt differ. */
function saltOf(salt: number | null, choice: number): number | null {
  return choice === 0 ? salt : (salt ?? 0) + choice;
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
