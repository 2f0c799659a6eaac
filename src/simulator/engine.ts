import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ApiOf } from './apis.ts';
import { LoadedAdapters, Sleep, systemClock } from './controls.ts';
import { engineBusy, engineDead, internalError } from './errors.ts';
import { failedAnswer, readJson, streamedAnswer, wholeAnswer } from './http.ts';
import { KvTransfer, PrefixCache } from './kv-cache.ts';
import { Metrics } from './metrics.ts';
import type { SimulatorOptions } from './options.ts';
import { fitToModel } from './requests.ts';
import { KV_BLOCK_TOKENS, KV_CACHE_TOKENS, type Pace, Scheduler } from './scheduler.ts';
import { scriptedPieces, scriptedSource } from './script.ts';
import { seedFrom, tokenSource } from './text.ts';

/** The engine behind the HTTP server: its models, its running requests, and whether it is alive. */
export class SimulatedEngine {
  /** The names of the model in requests, its own first. */
  readonly names: string[];
  readonly adapters: LoadedAdapters;
  readonly prefixes = new PrefixCache(KV_BLOCK_TOKENS, KV_CACHE_TOKENS / KV_BLOCK_TOKENS);
  readonly sleep = new Sleep(() => this.prefixes.clear());
  readonly pace: Pace;
  readonly metrics = new Metrics();
  readonly scheduler: Scheduler;
  /** The transfer of prompts' blocks from and to other engines; null: there is none. */
  readonly transfer: KvTransfer | null;
  private readonly options: SimulatorOptions;
  private readonly onDeath: () => void;
  private dead = false;

  /** @param onDeath is called when the engine dies by a fault */
  constructor(options: SimulatorOptions, onDeath: () => void) {
    this.options = options;
    this.onDeath = onDeath;
    this.names = options.servedModelName.length > 0 ? options.servedModelName : [options.model];
    this.adapters = new LoadedAdapters(this.names, options.enableLora);
    this.transfer = options.kvTransferConfig && new KvTransfer(options.kvTransferConfig);
    this.pace = {
      time_to_first_token_ms: options.timeToFirstTokenMs,
      inter_token_latency_ms: options.interTokenLatencyMs,
    };
    this.scheduler = new Scheduler({
      maxNumSeqs: options.maxNumSeqs,
      pace: this.pace,
      faults: options.faults,
      metrics: this.metrics,
      clock: systemClock,
      onDeath,
    });
  }

  get isDead(): boolean {
    return this.dead;
  }

  /** Ends every request with the engine-dead error; later ones get it too. */
  failAll(): void {
    this.dead = true;
    this.scheduler.failAll();
  }

  /** Answers a request that generates. @param address this engine's address @throws ApiError for a wrong request */
  async generate(
    request: IncomingMessage,
    response: ServerResponse,
    apiOf: ApiOf,
    address: () => AddressInfo,
  ): Promise<void> {
    const body = await readJson(request);
    await this.sleep.awake;
    const api = apiOf(body);
    const asked = api.read(body, this.adapters.names);
    const { script } = this.options;
    const pieces = script && scriptedPieces(script, asked.turns);
    const shapes = (pieces && api.scripted?.(pieces, body)) ?? api.shapes;
    const adapter = this.adapters.paths.has(String(body.model)) ? String(body.model) : null;
    const maxTokens = fitToModel(asked, this.options.maxModelLen);
    const choices = asked.prompts.flatMap((prompt) => Array.from({ length: asked.n }, () => prompt));
    this.admit(choices.length);
    const params = Object(body.kv_transfer_params);
    const blocks = await this.transfer?.read(params, choices[0]!.ids.length);
    if (response.destroyed) return;
    if (blocks?.case === 'fatal') {
      this.onDeath();
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
    const root = `${adapter ?? ''} ${body.cache_salt ?? ''}`;
    const cached = asked.prompts.reduce((sum, { ids }) => sum + this.prefixes.compute(ids, root), 0);
    this.metrics.cachedTokens += cached;
    const plan = {
      response,
      shapes,
      head,
      prefixes: choices.map(({ text }) => (asked.echo ? text : '')),
      prompts: choices.map(({ ids }) => (asked.returnTokenIds ? ids : null)),
      promptTokens: asked.prompts.reduce((sum, { ids }) => sum + ids.length, 0),
      cachedTokens: this.options.enablePromptTokensDetails ? cached : undefined,
      includeUsage: asked.includeUsage,
      continuousUsage: asked.continuousUsage,
      handOver:
        this.transfer && params.do_remote_decode === true
          ? (made: readonly number[]) =>
              this.transfer!.keep([...choices[0]!.ids, ...made.slice(0, -1)], address())
          : null,
    };
    if (blocks?.case === 'lost' && this.transfer?.config.policy === 'fail')
      return failedAnswer(plan, asked.stream);
    const receivers = asked.stream ? streamedAnswer(plan) : wholeAnswer(plan);
    const aborts = choices.map(({ ids: own }, index) => {
      const ids = blocks?.case === 'read' ? blocks.ids : own;
      return this.scheduler.add({
        promptTokens: ids.length,
        maxTokens,
        minTokens: asked.minTokens,
        ignoreEos: asked.ignoreEos,
        stop: pieces ? [] : asked.stop,
        includeStop: asked.includeStop,
        source: pieces
          ? scriptedSource(pieces)
          : tokenSource(adapter === null ? ids : [seedFrom(adapter), ...ids], saltOf(asked.salt, index)),
        receiver: receivers[index]!,
      });
    });
    const abort = () => {
      for (const one of aborts) one();
    };
    response.once('close', () => {
      if (!response.writableFinished) abort();
    });
  }

  /** Checks that there is room for further sequences. @throws ApiError if there is not */
  private admit(sequences: number): void {
    const { faults, maxNumQueuedReqs } = this.options;
    if (this.dead) throw engineDead();
    if (faults.refuse) throw engineBusy();
    if (faults.error_500 > 0) {
      faults.error_500--;
      throw internalError('Simulated failure of one request (fault error_500).');
    }
    if (
      maxNumQueuedReqs !== null &&
      this.scheduler.running + this.scheduler.waiting + sequences > maxNumQueuedReqs
    ) {
      this.metrics.rejections++;
      throw engineBusy();
    }
  }
}

/** Returns the salt of a choice, so that the choices of one prompt differ. */
function saltOf(salt: number | null, choice: number): number | null {
  return choice === 0 ? salt : (salt ?? 0) + choice;
}
