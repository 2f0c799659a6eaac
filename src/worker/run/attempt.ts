import type { Assembly } from '../../moving/assembly.ts';
import { engineAnswer, type PartialAnswer, type RouteList, type Usage } from '../../protocol/index.ts';
import type { DownloadedFile } from '../files/transfer.ts';
import type { IdsAsking, UsageAsking } from './ask-usage.ts';
import type { RunEngine } from './traced-engine.ts';

/** What every kind of job is given for one attempt. */
export interface Attempt {
  jobId: string;
  /** As the queue names it; a base queue names none. */
  jobType: string | undefined;
  /** What a base queue calls the pool of its worker. */
  configId: string | undefined;
  payload: object;
  engine: RunEngine;
  signal: AbortSignal;
  /** What the engine is asked for. */
  routes: RouteList;
  /** Names that mean whatever the engine serves. */
  modelAliases: ReadonlySet<string>;
  /** The engine's own name for its model; undefined when it does not tell. */
  servedModel: string | undefined;
  /** The name to ask the engine for where a job names this one. */
  modelFor(asked: string): string;
  /**
   * A file that the payload names.
   * @throws JobFailure `payload_unreachable`
   */
  download(url: string): Promise<DownloadedFile>;
  /** The request leaves now. */
  requested(): void;
  /** The engine streams its answer, and a piece of it has come. */
  streamed(): void;
  /** A `runpod` job has yielded something. */
  yielded(output: unknown): void;
  /** Whether the engine is asked for the usage of streams; null: the queue does not count it. */
  usageAsking: UsageAsking | null;
  /** Whether the engine is asked for token ids; null: answers are not moved. */
  idsAsking: IdsAsking | null;
  /** What an earlier attempt has generated of a stored answer; null: nothing is known of it. */
  partial: PartialAnswer | null;
  /** Where the answer is put together that this attempt gives; null: the engine does that. */
  assembles(assembly: Assembly | null): void;
  /** What the engine counted; null: it does not say. */
  used(usage: Usage | null): void;
  /** Tells what was used so far, for an attempt that does not come to its end. */
  counting(usage: () => Usage | null): void;
  /** How many tokens the engine says it generated for one choice; null: it does not say. */
  generated(tokens: number | null): void;
  /** ISO time for the result. */
  timestamp(): string;
}

/** An answer of an engine as a value: one that is called a text stays a text. */
export function parseAnswer(text: string, contentType: string | undefined): unknown {
  return contentType?.trimStart().toLowerCase().startsWith('text/') ? text : engineAnswer(text);
}
