import {
  BASE_LEASE_SECONDS,
  BASE_QUEUE_FRAME_BYTES,
  BASE_WORKER_FRAME_BYTES,
  BODY_FRAME_BYTES,
  FRAME_BYTES,
} from './limits.ts';

/**
 * What a peer that speaks only the base protocol (Casola's deployed queues and workers) does otherwise than
 * one that agreed on the extensions. Each side asks the profile of its peer for the difference that it means,
 * rather than which protocol the peer speaks.
 */

/** What a queue has to know of a worker. */
export interface WorkerProfile {
  readonly protocol: 'base' | 'extended';
  /** Length of its leases, seconds; null: as the queue is set. */
  readonly leaseSeconds: number | null;
  /** The largest frame it takes, bytes. */
  readonly frameBytes: number;
  /** It settles with the fence token 0 where it was told none, or forgot it: the attempt that it holds is meant. */
  readonly sendsZeroFence: boolean;
  /** On a new connection it lists the jobs that it holds; else it has kept its stored jobs and no others. */
  readonly listsJobs: boolean;
  /** The queue hears its pings, so silence proves that it is gone; else only a whole lease of silence does. */
  readonly pingsAreHeard: boolean;
  /** It takes any job as submitted; else chat, embeddings and speech, with a `task` in the payload. */
  readonly takesAnyJob: boolean;
  /** Its files have addresses relative to the socket that it dialled; else it needs them whole. */
  readonly resolvesAddresses: boolean;
  /** An upload it announced is confirmed by an echo of `job_result_ref`, not by `ack`. */
  readonly wantsEcho: boolean;
  /** Its failures say no `retryable`: without the engine's status, another attempt may succeed. */
  readonly retriesUnknownFailures: boolean;
  /** A frame of a type that the queue does not know is one of a newer version, and no mistake. */
  readonly mayBeNewer: boolean;
}

export const BASE_WORKER: WorkerProfile = {
  protocol: 'base',
  leaseSeconds: BASE_LEASE_SECONDS,
  frameBytes: BASE_WORKER_FRAME_BYTES,
  sendsZeroFence: true,
  listsJobs: false,
  pingsAreHeard: false,
  takesAnyJob: false,
  resolvesAddresses: false,
  wantsEcho: true,
  retriesUnknownFailures: true,
  mayBeNewer: false,
};

export const EXTENDED_WORKER: WorkerProfile = {
  protocol: 'extended',
  leaseSeconds: null,
  frameBytes: BODY_FRAME_BYTES,
  sendsZeroFence: false,
  listsJobs: true,
  pingsAreHeard: true,
  takesAnyJob: true,
  resolvesAddresses: true,
  wantsEcho: false,
  retriesUnknownFailures: false,
  mayBeNewer: true,
};

/** What a worker has to know of a queue. */
export interface QueueProfile {
  readonly protocol: 'base' | 'extended';
  /** The largest frame it takes, bytes. */
  readonly frameBytes: number;
  /** It answers `register` with what it grants; else silence is the answer. */
  readonly answersRegister: boolean;
  /** It acknowledges settlements; else what was sent is settled. */
  readonly acknowledges: boolean;
  /** It takes the extension's fields of a settlement: timing, and what a failure means. */
  readonly takesSettlementDetails: boolean;
  /** It takes a second `register` on a connection, to offer other slots. */
  readonly reregisters: boolean;
  /** It answers text pings; else it is sent WebSocket pings. */
  readonly answersTextPings: boolean;
  /**
   * It gives a worker jobs for models that its engine serves; else the payload's `model` is what the caller wrote, and
   * the engine's own model answers.
   */
  readonly choosesByModel: boolean;
  /** It counts tokens, so the worker asks its engine for them where the caller did not. */
  readonly countsUsage: boolean;
  /** It makes another attempt at a job that failed for a reason that may pass; else the worker asks its engine again. */
  readonly repeatsAttempts: boolean;
  /** It gives a released job to another worker at once; else a job is kept for as long as it may yet end. */
  readonly takesReleases: boolean;
}

export const BASE_QUEUE: QueueProfile = {
  protocol: 'base',
  frameBytes: BASE_QUEUE_FRAME_BYTES,
  answersRegister: false,
  acknowledges: false,
  takesSettlementDetails: false,
  reregisters: false,
  answersTextPings: false,
  choosesByModel: false,
  countsUsage: false,
  repeatsAttempts: false,
  takesReleases: false,
};

export const EXTENDED_QUEUE: QueueProfile = {
  protocol: 'extended',
  frameBytes: FRAME_BYTES,
  answersRegister: true,
  acknowledges: true,
  takesSettlementDetails: true,
  reregisters: true,
  answersTextPings: true,
  choosesByModel: true,
  countsUsage: true,
  repeatsAttempts: true,
  takesReleases: true,
};

/** RunPod's queue, as the worker sees it (worker/runpod/): a job that fails or is released is not given to another. */
export const RUNPOD_QUEUE: QueueProfile = {
  ...EXTENDED_QUEUE,
  choosesByModel: false,
  countsUsage: false,
  repeatsAttempts: false,
  takesReleases: false,
};

/**
 * An engine's error as the only text that a base worker sends of it, in the words of the OpenAI client for
 * Python: `Error code: 404 - The model does not exist`.
 */
export function engineErrorText(status: number, message: string | null): string {
  return `Error code: ${status} - ${message ?? 'no message'}`;
}

/** The HTTP status and the message in such a text; null in any other. */
export function parseEngineError(text: string): { status: number; message: string } | null {
  const [, status, message] = /^Error code: ([45]\d\d)\b(?: - )?(.*)$/s.exec(text) ?? [];
  return status === undefined ? null : { status: Number(status), message: message || text };
}

/** Work that a payload's `task` names, in the base protocol. */
export const BASE_TASKS = {
  chat: 'openai/chat-completion',
  embeddings: 'openai/embeddings',
  speech: 'openai/audio-speech',
  transcription: 'openai/audio-transcription',
  textToVideo: 'fal/text-to-video',
  imageToVideo: 'fal/image-to-video',
  speechToVideo: 'fal/speech-to-video',
} as const;
