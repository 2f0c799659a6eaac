import type { PoolChoice } from '../fleet/rpc.ts';
import type { Failure, Limits, Waiting } from '../protocol/index.ts';
import type { Prefix } from './prefix-rpc.ts';

/** How the gateway asks for a worker for a caller that waits, and what it is answered. */

/**
 * In place of a model: this worker alone, whose engine keeps the response that the request is about. The gateway lets no
 * caller write such a name.
 */
export function workerAlone(workerId: string): string {
  return `\0${workerId}`;
}

/** The worker that such a name stands for; null: it is a model. */
export function workerNamed(model: string | null): string | null {
  return model?.startsWith('\0') ? model.slice(1) : null;
}

export function bytesOf(text: WaitingRequest['payload']): Uint8Array<ArrayBuffer> {
  return typeof text === 'string' ? (new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>) : text;
}

export interface WaitingRequest {
  /** The gateway's own id; becomes the engine's request id. */
  job_id: string;
  job_type: string;
  /** What it asks the engine for, `/v1/chat/completions`, as lists of requests show it; left out: as `job_type`. */
  route?: string;
  /** JSON text of an EngineRequest; bytes are UTF-8. */
  payload: string | Uint8Array<ArrayBuffer>;
  /** The model the caller asked for; null: any (allowed when there is only one). */
  model: string | null;
  /** What the fleet object knows for the model; left out the first time. */
  known?: PoolChoice;
  /** Who asks; null or left out where no tokens are configured. */
  tenant?: string | null;
  /** Name of the caller's token. */
  token_name?: string | null;
  /** The limits of its token; null: it has none; left out: as they were last told. */
  limits?: Limits | null;
  /** What it may cost at most, as far as can be told; left out: nothing. */
  tokens?: number;
  /** The weight of its token among the requests of other tenants; left out: 1. */
  weight?: number;
  priority: number;
  /** How its prompt begins; left out: nothing is known of it. */
  prefix?: Prefix;
  /** How long to wait for a worker to exist at all, ms. */
  wait_for_worker_ms: number;
  /** Wait also as long as the start of a worker may take, where the scheduler starts one (`PoolStart`). */
  waits_for_start?: boolean;
  /** How long to wait for a free slot of a worker that exists, ms. */
  wait_for_slot_ms: number;
  /** Overall time the caller gives, ms; travels to the worker, which declines what it cannot end by then. */
  deadline_ms?: number;
  /** Time after which the request is ended whatever it is doing, ms. No worker declines it for that. */
  limit_ms?: number;
  /** What its caller calls the request, where that is not the id of the job. */
  request_id?: string;
  /** What the request's own body sets, kept for the case that another worker is asked for the rest of its answer. */
  terms?: { max_tokens: number | null; priority: number | null };
  /** Left out: it is the first attempt. */
  earlier?: EarlierAttempts;
  /** It asks for the rest of an answer that broke off elsewhere; left out: for the whole of it. */
  moved?: Moved;
}

/** How a request came to ask for the rest of an answer. */
interface Moved {
  /** Whose answer it was. */
  worker_id: string;
  /** Tokens that its caller had been given. */
  tokens: number;
  /** The same and the tokens of its prompt: the worker that goes on counts all of them again. */
  kept: number;
  why: string;
  /** How often the answer has been moved, this time included. */
  moves: number;
  /** How often because an attempt failed, and not because its worker leaves. */
  failures: number;
  /** How long ago its first worker was given it, ms. */
  given_ms_ago: number;
  /** How long ago its caller was given its first token, ms. */
  first_token_ms_ago: number;
  /** The same of the worker that it is moved from; null: that one gave nothing of it. */
  newest_first_token_ms_ago: number | null;
}

/** Jobs of callers that wait for the same model. */
export interface WaitingLineView {
  /** In the order in which they get a slot. */
  job_ids: string[];
  /** What the scheduler does to get them a worker, as their callers are told; null: they wait for a slot. */
  start: string | null;
}

/** A stored job that waits. */
export interface WaitingJobFacts {
  config_id: string;
  /** The model that the job names; null: none. */
  model: string | null;
  /** The job gives way to requests. */
  is_batch: boolean;
  /** What the job itself waits for; null: it waits for its pool. */
  own: Waiting | null;
}

/** Attempts at the request of a waiting caller that broke before they gave anything. */
export interface EarlierAttempts {
  /** Those that count; a worker may also have released it. */
  attempts: number;
  /** Of the newest; 0: it is not known. */
  fence_token: number;
  /** Since the first was asked for. */
  elapsed_ms: number;
  /** Workers at which the attempts that count failed; left out: they are not known. */
  failed_at?: readonly string[];
}

export type RefusalReason = Extract<RequestAnswer, { kind: 'refused' }>['reason'];

/** Of the caller's response, beside those of the engine and the gateway. */
type ResponseHeaders = Record<string, string>;

export type RequestAnswer =
  /** Dispatched: the relay of this worker will have the answer under `stream_id`. */
  | {
      kind: 'stream';
      stream_id: number;
      fence_token: number;
      worker_id: string;
      headers?: ResponseHeaders;
    }
  /** A base worker finished it: its `job_result.result`. */
  | { kind: 'result'; result: Record<string, unknown>; worker_id: string; headers?: ResponseHeaders }
  | { kind: 'error'; failure: Failure; worker_id: string }
  /**
   * `unknown_model`: no pool is known to serve it. `ambiguous_model`: the request names none and there are several.
   * `no_worker`: the pool is known, but all its workers are gone. `no_slot`: no slot became free in time.
   * `worker_gone`: the request was for one worker alone (`workerAlone`), which is gone. `queue_full`: too many wait
   * already. `deadline`: every worker has declined it, since none can meet its deadline. `over_limit`: its token has
   * reached a limit.
   */
  | {
      kind: 'refused';
      reason:
        | 'unknown_model'
        | 'ambiguous_model'
        | 'no_worker'
        | 'worker_gone'
        | 'no_slot'
        | 'queue_full'
        | 'deadline'
        | 'over_limit'
        | 'cancelled';
      message: string;
      retry_after_seconds: number;
      headers?: ResponseHeaders;
    };
