import { engineAnswer, type PartialAnswer, type RouteList, type Usage } from '../../protocol/index.ts';
import type { AssembledAnswer } from '../answers/assembled-answer.ts';
import type { DownloadedFile } from '../files/transfer.ts';
import type { RunEngine } from '../ports.ts';

/** Records whether this engine takes requests for the usage of streams. An engine that refuses is not asked again. */
export interface UsageAsking {
  engine: 'untried' | 'takes' | 'refuses';
}

/** Records whether this engine takes requests for token ids. */
export interface IdsAsking extends UsageAsking {
  /** The identity of the engine's model (`model_identity` of a registration); left out: unknown. */
  identity?: string | undefined;
  /**
   * Whether the engine has streamed parts that only it can put together: it is then asked for the answers of stored
   * jobs in one piece (run/assembled.ts).
   */
  parses?: boolean;
}

/** The values and calls that every kind of job gets for one attempt. */
export interface Attempt {
  jobId: string;
  /** The job's type as the queue names it; a base queue names none. */
  jobType: string | undefined;
  /** The name that a base queue uses for its worker's pool. */
  configId: string | undefined;
  payload: object;
  engine: RunEngine;
  signal: AbortSignal;
  /** The routes that the engine may be asked for. */
  routes: RouteList;
  /** The names that stand for whatever the engine serves. */
  modelAliases: ReadonlySet<string>;
  /** The engine's own name for its model; undefined when the engine does not report it. */
  servedModel: string | undefined;
  /** Returns the name to ask the engine for if a job names this one. */
  modelFor(asked: string): string;
  /**
   * Downloads a file that the payload names.
   * @throws JobFailure `payload_unreachable`
   */
  download(url: string): Promise<DownloadedFile>;
  /** Reports that the request is sent now. */
  requested(): void;
  /** Reports that a piece of a streamed answer has arrived. */
  streamed(): void;
  /** Takes an output of a `runpod` job. */
  yielded(output: unknown): void;
  /** Whether the engine takes requests for the usage of streams; null: the queue does not count it. */
  usageAsking: UsageAsking | null;
  /** Whether the engine takes requests for token ids; null: answers are not moved. */
  idsAsking: IdsAsking | null;
  /** The part of a stored answer that an earlier attempt has generated; null: none is known. */
  partial: PartialAnswer | null;
  /** Sets the place where this attempt puts its answer together; null: the engine does that. */
  assembles(assembly: AssembledAnswer | null): void;
  /** Reports the tokens that the engine counted; null: it reported none. */
  used(usage: Usage | null): void;
  /** Sets the function that finds what was used so far, for an attempt that does not come to its end. */
  counting(usage: () => Usage | null): void;
  /** Reports the tokens that the engine says it generated for one choice; null: it does not say. */
  generated(tokens: number | null): void;
  /** Returns the ISO time for the result. */
  timestamp(): string;
}

/** Returns an engine's answer as a value; an answer whose type says text stays a text. */
export function parseAnswer(text: string, contentType: string | undefined): unknown {
  return contentType?.trimStart().toLowerCase().startsWith('text/') ? text : engineAnswer(text);
}
