import type { ObjectHost } from '../durable/host.ts';
import type { Alarm, Sql } from '../durable/ports.ts';
import type {
  AlertMute,
  AlertsView,
  Attention,
  FleetView,
  MuteRequest,
  TestPost,
} from '../protocol/index.ts';
import type { Problem } from './view/scaling-attention.ts';

/** The parts that the fleet object hands to the feature that tells others of its problems. */
export interface AlertingPorts {
  queueId: string;
  /** The object's database, which has the tables of alerts (tables.ts). */
  sql: Sql;
  alarm: Alarm;
  /** Returns the time, epoch ms. */
  now(): number;
  /** Returns the fleet as it is now. */
  view(): Promise<FleetView>;
  commit<T>(work: () => T): T;
  /** Keeps the object at work until this settles. */
  background(work: Promise<void>): void;
  /** Returns a random name of lower-case letters and digits. */
  randomName(length: number): string;
  log: ObjectHost['log'];
}

/** The part that tells others of the fleet's problems: a feature, which the host hands to the fleet object. */
export interface Alerting {
  /** Notes what needs attention now. @returns the same problems, with what people did about them */
  look(problems: readonly Problem[], now: number): Attention[];
  /**
   * Notes who has acknowledged a problem. @param by name of the token; null: none was required
   * @returns the problem as the list now shows it, or null if it is not in the list
   */
  acknowledge(id: string, by: string | null, now: number): Attention | null;
  /** Called when the fleet has news. */
  heard(): void;
  /** Called when the alarm has rung. */
  onAlarm(): Promise<void>;
  /** Returns the receivers, without what would let anybody post there, and the mutes in force. */
  view(now: number): AlertsView;
  /** Makes a mute. @param by name of the token; null: none was required @returns null: there are too many */
  mute(request: MuteRequest, by: string | null, now: number): AlertMute | null;
  /** Ends a mute early. @returns the mute as it was, or null if none of that id is in force */
  endMute(id: string, now: number): AlertMute | null;
  /** Sends a test to a receiver, at once. @returns null: there is no receiver of that name */
  test(name: string): Promise<TestPost | null>;
}

export type MakeAlerting = (ports: AlertingPorts) => Alerting;
