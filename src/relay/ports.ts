/** The worker's answer socket. Sends never throw. */
export interface AnswerSocket {
  send(message: Uint8Array<ArrayBuffer>): void;
  close(code: number, reason: string): void;
}

export interface RelaySettings {
  reconnect_grace_seconds: number;
}

/**
 * Takes to the queue what a worker settles beside its answers.
 * @param text as a message of the control socket
 * @returns whether this worker may
 */
export type Settle = (text: string) => boolean;
