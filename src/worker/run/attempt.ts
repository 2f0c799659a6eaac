import type { EngineClient } from '../../engine/client/types.ts';

/** What every kind of job is given for one attempt. */
export interface Attempt {
  jobId: string;
  jobType: string;
  payload: unknown;
  engine: EngineClient;
  signal: AbortSignal;
  /** Names that mean whatever the engine serves. */
  modelAliases: ReadonlySet<string>;
  /** The engine's own name for its model; undefined when it does not tell. */
  servedModel: string | undefined;
  /** The request leaves now. */
  requested(): void;
  /** The engine streams its answer, and a piece of it has come. */
  streamed(): void;
  /** How many tokens the engine says it generated for one choice; null: it does not say. */
  generated(tokens: number | null): void;
  /** ISO time for the result. */
  timestamp(): string;
}

/** JSON where it is JSON, else the text. */
export function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
