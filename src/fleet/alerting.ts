import type { ObjectHost } from '../durable/host.ts';
import type { Alarm, Sql } from '../durable/ports.ts';
import type { Attention, FleetView } from '../protocol/index.ts';
import type { Problem } from './view/scaling-attention.ts';

/** What the fleet object hands to the part that tells others of its problems. */
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
  log: ObjectHost['log'];
}

/** The part that tells others of the fleet's problems: a feature, which the host hands to the fleet object. */
export interface Alerting {
  /** Notes what needs attention now. @returns the same problems, with who has acknowledged them */
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
}

export type MakeAlerting = (ports: AlertingPorts) => Alerting;
