import { UserError } from '../../../process/index.ts';
import type { TokenEntry } from '../../../settings/token-entry.ts';
import type { QueueSettings } from '../settings.ts';

/** The data that a child needs to be the owner. */
export interface OwnerStart {
  role: 'owner';
  /** The settings of the queue, with the address of this machine at which the gateways reach the owner. */
  settings: QueueSettings;
  /** The entry of the gateways' token. */
  entry: TokenEntry;
}

/** The data that a child needs to be a gateway. */
export interface GatewayStart {
  role: 'gateway';
  host: string;
  /** The port that all gateways of this machine share. */
  port: number;
  /** The address of the owner. */
  queue: string;
  token: string;
}

export type ChildStart = OwnerStart | GatewayStart;

/** A message of the parent process to a child. */
export type ToChild =
  | { type: 'start'; name: string; start: ChildStart }
  /** Tells the child, owner or gateway, to end within two seconds. */
  | { type: 'stop' };

/** Why a process ends. */
export interface Failure {
  message: string;
  /** The exit code of a UserError; null: the failure is unexpected. */
  exitCode: number | null;
}

export function failureOf(error: Error): Failure {
  return { message: error.message, exitCode: error instanceof UserError ? error.exitCode : null };
}

/** A message of a child to the parent process. */
export type FromChild =
  | { type: 'up' }
  /** Says that the child could not start. */
  | ({ type: 'refused' } & Failure)
  /** Says that the owner can no longer keep acknowledged jobs, and ends. */
  | ({ type: 'failed' } & Failure)
  /** Says that the gateway takes no new connections, and ends once its streams have ended. */
  | { type: 'drains' };
