import type { Heartbeat, Instance } from '../protocol/index.ts';

/** What the gateway and the queue may ask of a fleet object, by RPC. Arguments and answers are plain data. */
export interface FleetRpc {
  /** Keeps the newest heartbeat of its worker. On disk within a second or so: a crash before may lose it. */
  heartbeat(beat: Heartbeat): Promise<void>;
  /** What only the queue sees of its workers, oldest first. An event told twice changes nothing. */
  record(events: FleetEvent[]): Promise<void>;
  /** Every worker heard of within the retention time, by worker id. */
  workers(): Promise<KnownWorker[]>;
  /** Every model that a worker served within the models' retention time, longest known first. */
  models(): Promise<KnownModel[]>;
  /**
   * Which configs requests are for that no connected worker serves, each by its model, in order.
   * @param models null: the request names none
   */
  chooseConfigs(models: (string | null)[]): Promise<ConfigChoice[]>;
}

/** Which config a request is for. Names as an error message lists them: at most ten, "… and 32 more". */
export type ConfigChoice =
  | { kind: 'config'; config_id: string }
  /** No model was named and there are several configs. */
  | { kind: 'ambiguous'; models: string; configs: string }
  /** Nobody serves the model; the lists are empty where nothing is known at all. */
  | { kind: 'unknown'; models: string; configs: string };

export type FleetEvent =
  | (WorkerEvent & { kind: 'registered'; instance: Instance | null })
  /** Still connected: told from time to time so that neither worker nor models age out. */
  | (WorkerEvent & { kind: 'connected' })
  | (WorkerEvent & { kind: 'disconnected'; reason: string })
  /** Stored by a version of the queue that had no fleet object; `at` is when it was last heard of. */
  | (WorkerEvent & {
      kind: 'handed_over';
      instance: Instance | null;
      heartbeat: Heartbeat | null;
      heartbeat_at: number | null;
    });

interface WorkerEvent {
  worker_id: string;
  config_id: string;
  /** Names its engine answers to, as many as are remembered; none: it is known by its config alone. */
  models: string[];
  /** Epoch ms of the queue's clock. */
  at: number;
}

export interface KnownWorker {
  worker_id: string;
  config_id: string | null;
  /** As it last registered; null: it only sent heartbeats, or it speaks only the base protocol. */
  instance: Instance | null;
  heartbeat: Heartbeat | null;
  /** Epoch ms */
  heartbeat_at: number | null;
  /** How its last connection ended, `at` in epoch ms; null: it did not, or never was. */
  disconnected: { at: number; reason: string } | null;
}

export interface KnownModel {
  id: string;
  config_id: string;
  /** Epoch ms when the first worker that serves it registered. */
  first_seen_ms: number;
}
