import type { BrokenReason } from '../protocol/index.ts';

/** Name of the relay object that holds a worker's answers. */
export function relayName(queueId: string, workerId: string): string {
  return `${queueId}/${workerId}`;
}

/**
 * What others may ask of a relay object.
 *
 * The worker dials its answer socket by `fetch` with an upgrade. The gateway asks for one stream by `fetch` of
 * `streamUrl`; the response is the engine's own (status, headers, body), or one with the header BROKEN_HEADER when
 * the attempt ended before a byte could be given to the caller: its value is a JSON BrokenReason, and another attempt
 * may be made without the caller noticing. Dropping the call or the response's body cancels the stream.
 */
export interface RelayCalls {
  /** The queue found that this attempt is lost: tell the caller that waits for it. */
  breakStream(stream: number, reason: BrokenReason): Promise<void>;
  /** Closes the answer socket with 1012: the process is about to end, or its worker has to show its token again. */
  closeSockets(): Promise<void>;
}

export const REPLAY_PATH = '/replays/';

/** Where the gateway opens a stream. The host is a placeholder. */
export function streamUrl(stream: number): string {
  return `https://relay/streams/${stream}`;
}

/** The same for the answer of a stored job, which several readers may read; one that leaves cancels nothing. */
export function replayUrl(stream: number): string {
  return `https://relay${REPLAY_PATH}${stream}`;
}

/** Request header: JSON of headers that the response gets beside the engine's, so that it can be passed on as it is. */
export const ANSWER_HEADERS = 'x-answer-headers';

/** Request header: JSON of the request whose answer is opened, should it have to be moved (moving/elsewhere/mover.ts). */
export const ASKED_FOR_HEADER = 'x-asked-for';

/**
 * Request header, set by the gateway alone: the relay that is meant (relayName, percent-encoded), where the queue object
 * holds the relays of its workers.
 */
export const RELAY_HEADER = 'x-relay';

/** Code of the BrokenReason for a reader that came when the beginning of a replay buffer was dropped. */
export const BEGINNING_DROPPED = 'beginning_dropped';

/** Response header of a stream that broke before it gave anything: a JSON BrokenReason. */
export const BROKEN_HEADER = 'x-relay-broken';
