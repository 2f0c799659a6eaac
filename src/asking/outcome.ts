import type { Failure } from '../protocol/index.ts';
import type { RequestAnswer, StepView } from '../queue/rpc.ts';

/** The parts of an answer that can be looked at before it is given. */
export interface Look {
  status: number;
  /** Reads the whole body. */
  text(): Promise<string>;
}

/** The end of one caller's request, before any of it is put into HTTP. */
export type Outcome<Answer = Response> =
  /** The engine's own answer; its body may still be on its way. */
  | { kind: 'answer'; answer: Answer }
  /** A worker without an answer socket finished the job. */
  | Extract<RequestAnswer, { kind: 'result' }>
  /** The last attempt failed: its failure is final, or no further attempt is allowed. */
  | {
      kind: 'failed';
      failure: Failure;
      attempts: number;
      fence?: number;
      worker_id?: string;
      step?: StepView;
    }
  | Extract<RequestAnswer, { kind: 'refused' }>
  /** The caller hung up: the answer is not read. */
  | { kind: 'gone' };

/** The end of a request whose caller is still there. */
export type Ended<Answer> = Exclude<Outcome<Answer>, { kind: 'gone' }>;
