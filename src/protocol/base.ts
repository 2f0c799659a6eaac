import {
  BASE_LEASE_SECONDS,
  BASE_QUEUE_FRAME_BYTES,
  BASE_WORKER_FRAME_BYTES,
  BODY_FRAME_BYTES,
  FRAME_BYTES,
} from './bounds.ts';

/**
 * Describes how a peer that speaks only the base protocol (Casola's deployed queues and workers) differs from one that
 * agreed on the extensions. Each side asks the profile of its peer for the difference that it means, rather than which
 * protocol the peer speaks.
 */

/** The facts about a worker on which a queue depends. */
export interface WorkerProfile {
  readonly protocol: 'base' | 'extended';
  /** The length of the worker's leases, seconds; null: as the queue is set. */
  readonly leaseSeconds: number | null;
  /** The largest frame that the worker takes, bytes. */
  readonly frameBytes: number;
  /**
   * Whether the worker settles with the fence token 0 if it was given none, or forgot it. The token 0 then means the
   * attempt that the worker holds.
   */
  readonly sendsZeroFence: boolean;
  /**
   * Whether the worker lists the jobs that it holds on a new connection; if not, it has kept its stored jobs and no
   * others.
   */
  readonly listsJobs: boolean;
  /**
   * Whether the queue sees the worker's pings, so that silence proves that the worker is gone; if not, only a whole
   * lease of silence does.
   */
  readonly pingsAreHeard: boolean;
  /**
   * Whether the worker takes any job as submitted; if not, it takes chat, embeddings and speech, with a `task` in the
   * payload.
   */
  readonly takesAnyJob: boolean;
  /** Whether the worker resolves addresses of files against that of its socket; if not, it needs whole addresses. */
  readonly resolvesAddresses: boolean;
  /** Whether an upload that the worker announced is confirmed by an echo of `job_result_ref`, not by `ack`. */
  readonly wantsEcho: boolean;
  /** Whether the worker's failures lack `retryable`; without the engine's status, another attempt may then succeed. */
  readonly retriesUnknownFailures: boolean;
  /** Whether a frame of an unknown type comes from a newer version, and is not a mistake. */
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

/** The facts about a queue on which a worker depends. */
export interface QueueProfile {
  readonly protocol: 'base' | 'extended';
  /** The largest frame that the queue takes, bytes. */
  readonly frameBytes: number;
  /** Whether the queue answers `register` with what it grants; if not, it does not answer at all. */
  readonly answersRegister: boolean;
  /** Whether the queue acknowledges settlements; if not, a settlement counts once it was sent. */
  readonly acknowledges: boolean;
  /** Whether the queue takes the extension's fields of a settlement: timing, and what a failure means. */
  readonly takesSettlementDetails: boolean;
  /** Whether the queue takes a second `register` on a connection, which offers a different number of slots. */
  readonly reregisters: boolean;
  /** Whether the queue answers text pings; if not, it is sent WebSocket pings. */
  readonly answersTextPings: boolean;
  /**
   * Whether the queue gives a worker only jobs for models that its engine serves; if not, the payload's `model` is what
   * the caller wrote, and the engine's own model answers.
   */
  readonly choosesByModel: boolean;
  /** Whether the queue counts tokens, so that the worker asks its engine for the counts where the caller did not. */
  readonly countsUsage: boolean;
  /**
   * Whether the queue makes another attempt at a job that failed for a reason that may pass; if not, the worker asks
   * its engine again.
   */
  readonly repeatsAttempts: boolean;
  /**
   * Whether the queue gives a released job to another worker at once; if not, the worker keeps a job for as long as it
   * may yet end.
   */
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

/**
 * RunPod's queue, as the worker sees it (worker/runpod/): it gives a job that fails or is released to no other worker.
 */
export const RUNPOD_QUEUE: QueueProfile = {
  ...EXTENDED_QUEUE,
  choosesByModel: false,
  countsUsage: false,
  repeatsAttempts: false,
  takesReleases: false,
};

/**
 * Writes an engine's error as the only text that a base worker sends of it, in the words of the OpenAI client for
 * Python: `Error code: 404 - The model does not exist`.
 */
export function engineErrorText(status: number, message: string | null): string {
  return `Error code: ${status} - ${message ?? 'no message'}`;
}

/** Reads the HTTP status and the message from a text that `engineErrorText` wrote; null for any other text. */
export function parseEngineError(text: string): { status: number; message: string } | null {
  const [, status, message] = /^Error code: ([45]\d\d)\b(?: - )?(.*)$/s.exec(text) ?? [];
  return status === undefined ? null : { status: Number(status), message: message || text };
}

/** The values of a payload's `task` in the base protocol. */
export const BASE_TASKS = {
  chat: 'openai/chat-completion',
  embeddings: 'openai/embeddings',
  speech: 'openai/audio-speech',
  transcription: 'openai/audio-transcription',
  textToVideo: 'fal/text-to-video',
  imageToVideo: 'fal/image-to-video',
  speechToVideo: 'fal/speech-to-video',
} as const;
