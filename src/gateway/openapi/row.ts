import type { Scope } from '../../settings/scopes.ts';
import type { SchemaId } from './schemas.ts';

/** One route of the gateway as `/openapi.json` describes it. */
export interface RouteRow {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** As it is registered: `/api/jobs/:id`. */
  path: string;
  /** The group it is listed in. */
  tag:
    | 'Inference'
    | 'Jobs'
    | 'Files'
    | 'Fleet'
    | 'Tokens'
    | 'Page'
    | 'Metrics and usage'
    | 'RunPod'
    | 'Workers'
    | 'Documents';
  /** What it does, in one line. */
  summary: string;
  /** Details that the summary leaves out. */
  description?: string;
  /** A token needs one of these (or `admin`); empty: no token is asked for. */
  scopes: readonly Scope[];
  query?: Record<string, Parameter>;
  headers?: Record<string, Parameter>;
  body?: Content | readonly Content[];
  /** By status. */
  answers: Readonly<Record<number, Answer>>;
  /** Statuses of errors beside 401, 403 (where a token is asked for) and 500. */
  errors?: readonly ErrorStatus[];
}

export type ErrorStatus = 400 | 404 | 408 | 409 | 410 | 413 | 426 | 429 | 501 | 502 | 503 | 504;

export interface Parameter {
  description: string;
  /** Left out: text. */
  type?: 'string' | 'integer' | 'number' | 'boolean';
  enum?: readonly string[];
}

/** A body. */
export interface Content {
  /** Left out: `application/json`. */
  type?: string;
  /** Left out: anything. A list: an array of these. */
  schema?: SchemaId | readonly [SchemaId];
  example?: unknown;
}

export interface Answer {
  description: string;
  /** Left out: there is none. */
  content?: Content | readonly Content[];
}
