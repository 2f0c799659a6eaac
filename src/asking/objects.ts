import type { BatchesObject } from '../batches/object.ts';
import type { CallsOf } from '../durable/calls.ts';
import type { KeptRequestsObject } from '../features/kept-requests/object/object.ts';
import type { ResponsesObject } from '../features/responses/object/object.ts';
import type { FileObject } from '../files/object.ts';
import type { OpenedWith } from '../fleet/live-viewers.ts';
import type { FleetObject } from '../fleet/object.ts';
import type { QueueObject } from '../queue/object/object.ts';
import type { WaitingRequest, WorkerDial } from '../queue/rpc.ts';
import type { RelayCalls } from '../relay/calls.ts';
import type { OpenedAnswer } from '../relay/object/responses.ts';

/** The data that a relay keeps about the request whose answer it opens, in case the answer has to be moved. */
export interface AskedFor {
  call: Omit<WaitingRequest, 'payload'> & { payload?: undefined };
  queue_id: string;
  worker_id: string;
  /** The headers of the response, beside the engine's. */
  more: Record<string, string>;
}

/**
 * Gives the gateway and the objects access to the objects of a queue id. Each host makes one (host/node,
 * host/cloudflare). A call that fails because its object ended rejects with an error whose `retryable` is true: made
 * again, it reaches the next object. Ask for a stub anew for every call, since one that failed once may stay broken.
 */
export interface Objects {
  queue(queueId: string): QueueStub;
  fleet(queueId: string): FleetStub;
  batches(queueId: string): BatchesStub;
  files(queueId: string): FilesStub;
  responses(queueId: string): ResponsesStub;
  keptRequests(queueId: string): KeptRequestsStub;
  relay(queueId: string, workerId: string): RelayStub;
}

export interface QueueStub extends CallsOf<QueueObject> {
  /** Opens the control socket of a worker. @param upgrade the worker's request @returns the response to it */
  connect(dial: WorkerDial, upgrade: Request): Promise<Response>;
}

export interface FleetStub extends CallsOf<FleetObject> {
  /** Opens the socket of a viewer. @returns the response to its request */
  watch(opened: OpenedWith, upgrade: Request): Promise<Response>;
}

export type BatchesStub = CallsOf<BatchesObject>;

export type FilesStub = CallsOf<FileObject>;

export type ResponsesStub = CallsOf<ResponsesObject>;

export type KeptRequestsStub = CallsOf<KeptRequestsObject>;

export interface RelayStub extends RelayCalls {
  /** Opens the answer socket of the worker. @returns the response to its request */
  connect(upgrade: Request): Promise<Response>;
  /**
   * Returns the answer of one attempt as soon as it opens: the engine's own status, headers and body, or a response
   * with BROKEN_HEADER. Cancelling its body cancels the stream.
   * @param more headers of the response beside the engine's
   * @param asked the request to make elsewhere if the answer breaks off; null: the answer is not moved
   */
  open(stream: number, more: Record<string, string>, asked: AskedFor | null): Promise<Response>;
  /** Opens the answer of one attempt as `open` does, without a Response. Only a relay in the asking process has it. */
  openAnswer?(stream: number, asked: AskedFor | null): Promise<OpenedAnswer>;
  /** Opens the answer of a stored job, which several readers may read; one that leaves cancels nothing. */
  openReplay(stream: number, more: Record<string, string>, signal: AbortSignal): Promise<Response>;
}
