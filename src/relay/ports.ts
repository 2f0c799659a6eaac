/** The worker's answer socket. Sends never throw. */
export interface AnswerSocket {
  send(message: Uint8Array<ArrayBuffer>): void;
  close(code: number, reason: string): void;
}

export interface RelaySettings {
  reconnect_grace_seconds: number;
}
