import type { Objects } from '../asking/objects.ts';
import type { QueueSettingBindings } from '../settings/queue-settings.ts';

/** What the gateway is given. The objects read the settings. */
export interface Env extends QueueSettingBindings {
  objects: Objects;
  /** JSON array of TokenEntry (auth.ts). Empty or absent: no token is asked for, loopback only. */
  TOKENS?: string;
  /** Key of the MACs in the addresses of payloads and results; without it the gateway answers 503 there. */
  FILE_KEY_SECRET?: string;
}

/** What the gateway's routes are given. */
export interface GatewayEnv extends Env {
  /** Opens the gateway's end of a WebSocket that a caller asks for. */
  acceptUpgrade(upgrade: Request): { socket: ServerSocket; response: Response };
}

/** The gateway's end of a WebSocket. Its methods never throw: a socket that is gone swallows what is sent. */
export interface ServerSocket {
  /** Called once, before the gateway answers the upgrade. */
  listen(heard: { message(data: string | ArrayBuffer): void; closed(): void }): void;
  send(text: string): void;
  close(code: number, reason: string): void;
}
