import type { Scope } from '../../settings/token-entry.ts';
import type { SchemaId } from './schemas.ts';

/** One route of the gateway as `/openapi.json` describes it. */
export interface RouteRow {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** The path in the form in which it is registered: `/api/jobs/:id`. */
  path: string;
  /** The group in which the document lists the route. */
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
  /** The route's effect, in one line. */
  summary: string;
  /** Details that the summary leaves out. */
  description?: string;
  /** The scopes of which a token needs one (or `admin`); empty where the route asks for no token. */
  scopes: readonly Scope[];
  query?: Record<string, Parameter>;
  headers?: Record<string, Parameter>;
  body?: Content | readonly Content[];
  /** The route's answers by status. */
  answers: Readonly<Record<number, Answer>>;
  /** The statuses of errors beside 401, 403 (where the route asks for a token) and 500. */
  errors?: readonly ErrorStatus[];
}

export type ErrorStatus = 400 | 404 | 408 | 409 | 410 | 413 | 426 | 429 | 501 | 502 | 503 | 504;

export interface Parameter {
  description: string;
  /** The parameter's type; left out for text. */
  type?: 'string' | 'integer' | 'number' | 'boolean';
  enum?: readonly string[];
}

/** A body's type and schema. */
export interface Content {
  /** The content type; left out for `application/json`. */
  type?: string;
  /** The body's schema; a list stands for an array of it. Left out, the body may be anything. */
  schema?: SchemaId | readonly [SchemaId];
  example?: unknown;
}

export interface Answer {
  description: string;
  /** The answer's body; left out where there is none. */
  content?: Content | readonly Content[];
}
