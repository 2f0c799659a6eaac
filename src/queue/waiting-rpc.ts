import type { Cause } from '../aliases/alias.ts';
import type { PoolChoice } from '../fleet/rpc.ts';
import type { Failure, Limits, RequestCost, Waiting } from '../protocol/index.ts';
import type { GivenExtras } from './job-extras.ts';

/** Describes how the gateway requests a worker for a caller that waits, and what the queue answers. */

export function bytesOf(text: WaitingRequest['payload']): Uint8Array<ArrayBuffer> {
  return typeof text === 'string' ? (new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>) : text;
}

export interface WaitingRequest extends GivenExtras {
  /** The gateway's own id for the job; it becomes the engine's request id. */
  job_id: string;
  job_type: string;
  /** The engine's route, such as `/v1/chat/completions`, as lists of requests show it; left out: `job_type`. */
  route?: string;
  /** The JSON text of an EngineRequest; bytes are UTF-8. */
  payload: string | Uint8Array<ArrayBuffer>;
  /** The model that the caller requested; null: any (allowed when there is only one). */
  model: string | null;
  /** The pools that the fleet object knows, by model; left out of the first call. */
  known?: KnownPools;
  /** The conversation that the request belongs to, as its caller names it; left out: it names none. */
  session?: string;
  /** The step of an alias that the request leaves; left out: it begins. */
  fell?: Fall;
  /** The caller's tenant; null or left out where no tokens are configured. */
  tenant?: string | null;
  /** The name of the caller's token. */
  token_name?: string | null;
  /** The limits of the caller's token; null: it has none; left out: they are as last reported. */
  limits?: Limits | null;
  /** The most that the request may cost; left out: nothing is known of it. */
  cost?: RequestCost;
  priority: number;
  /** The caller waits at most this many ms for a worker to exist at all. */
  wait_for_worker_ms: number;
  /**
   * True where the caller also waits as long as the start of a worker may take, if the scheduler starts one
   * (`PoolStart`).
   */
  waits_for_start?: boolean;
  /** The caller waits at most this many ms for a free slot of a worker that exists. */
  wait_for_slot_ms: number;
  /** The caller's overall deadline, ms from now. The worker learns it and declines what it cannot end by then. */
  deadline_ms?: number;
  /** The time limit, ms, after which the request ends in whatever state. No worker declines the request for that. */
  limit_ms?: number;
  /** The caller's own id for the request, where it differs from the job's. */
  request_id?: string;
  /** The values that the request's own body sets, kept in case another worker is asked for the rest of its answer. */
  terms?: { max_tokens: number | null; priority: number | null };
  /** The earlier attempts at the request; left out: this is the first. */
  earlier?: EarlierAttempts;
  /** The answer that broke off elsewhere, whose rest is requested; left out: the whole answer is. */
  moved?: Moved;
  /** The number of the process whose relay passes the answer on; left out: the queue's own. */
  home?: number;
}

/** The pools that the fleet object knows for models that no connected worker serves. */
export type KnownPools = readonly (readonly [model: string | null, choice: PoolChoice])[];

/** The facts that decide which model of an alias a stored job is named. */
export interface AskedModel {
  model: string | null;
  /** As in `WaitingRequest`. */
  session?: string;
  tenant?: string | null;
  /** The pool that the job names. */
  config_id?: string;
}

/** The end of one step of an alias. */
export interface Fall {
  /** The index of the step. */
  from: number;
  cause: Cause;
}

/** The step of an alias that a request went to. */
export interface StepView {
  index: number;
  /** The model that has the request. */
  model: string;
  /** The causes for which the request goes on to another step. */
  causes: readonly Cause[];
}

/** The facts about an answer that is moved, whose rest a request asks for. */
interface Moved {
  /** The worker that the answer is moved from. */
  worker_id: string;
  /** The identity of that worker's model: only its equals go on with the answer; left out: it does not say. */
  model_identity?: string;
  /** The tokens of the answer that the caller had been given before the move. */
  tokens: number;
  /** The tokens of the prompt and of the answer before the move, which the next worker counts again. */
  kept: number;
  why: string;
  /** The number of moves of the answer, this one included. */
  moves: number;
  /** The number of these moves that were made because an attempt failed, not because its worker leaves. */
  failures: number;
  /** The time since the answer's first worker was given the request, ms. */
  given_ms_ago: number;
  /** The time since the caller was given the answer's first token, ms. */
  first_token_ms_ago: number;
  /** The time since the worker that the answer is moved from gave its first token, ms; null: it gave none. */
  newest_first_token_ms_ago: number | null;
}

/** The jobs of callers that wait for the same model. */
export interface WaitingLineView {
  /** The ids of the jobs, in the order in which they get a slot. */
  job_ids: string[];
  /** The words that tell these callers how the scheduler gets them a worker; null: they wait for a slot. */
  start: string | null;
}

/** The facts about a stored job that waits. */
export interface WaitingJobFacts {
  config_id: string;
  /** The model that the job names; null: none. */
  model: string | null;
  /** True if the job gives way to requests. */
  is_batch: boolean;
  /** The reason why the job itself waits; null: it waits for its pool. */
  own: Waiting | null;
}

/** The attempts at a waiting caller's request that broke before they gave anything. */
export interface EarlierAttempts {
  /** The number of attempts that count; releases by a worker do not. */
  attempts: number;
  /** The fence token of the newest attempt; 0: unknown. */
  fence_token: number;
  /** The time since the first attempt was requested, ms. */
  elapsed_ms: number;
  /** The workers at which the attempts that count failed; left out: unknown. */
  failed_at?: readonly string[];
}

export type RefusalReason = Extract<RequestAnswer, { kind: 'refused' }>['reason'];

/** Headers of the caller's response, beside those of the engine and the gateway. */
type ResponseHeaders = Record<string, string>;

export type RequestAnswer =
  /** The job was dispatched: the relay of this worker will have the answer under `stream_id`. */
  | {
      kind: 'stream';
      stream_id: number;
      fence_token: number;
      worker_id: string;
      step?: StepView;
      headers?: ResponseHeaders;
    }
  /** A base worker finished the job: its `job_result.result`. */
  | {
      kind: 'result';
      result: Record<string, unknown>;
      worker_id: string;
      step?: StepView;
      headers?: ResponseHeaders;
    }
  | { kind: 'error'; failure: Failure; worker_id: string; step?: StepView }
  /**
   * The job is rejected. `unknown_model`: no pool is known to serve the model. `ambiguous_model`: the request names no
   * model and there are several. `no_worker`: the pool is known, but all its workers are gone. `no_slot`: no slot
   * became free in time. `queue_full`: too many wait already. `deadline`: every worker has declined the job, since none can meet its
   * deadline. `over_limit`: the caller's token has reached a limit.
   */
  | {
      kind: 'refused';
      reason:
        | 'unknown_model'
        | 'ambiguous_model'
        | 'no_worker'
        | 'no_slot'
        | 'queue_full'
        | 'deadline'
        | 'over_limit'
        | 'cancelled';
      message: string;
      retry_after_seconds: number;
      /** True if a worker was being started, for longer than the alias lets requests wait for it. */
      was_starting?: true;
      step?: StepView;
      headers?: ResponseHeaders;
    };
