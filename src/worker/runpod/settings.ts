import type { AddressTemplates } from './addresses.ts';

/** How this worker belongs to a RunPod endpoint. */
export interface RunpodQueueSettings {
  /** Null: in a local mode of RunPod's SDK, without a platform. */
  addresses: AddressTemplates | null;
  /** As the platform calls this worker. */
  workerId: string;
  apiKey: string | undefined;
  pingIntervalMs: number;
  /** Each result asks the platform for a new worker, and this one ends. */
  refreshes: boolean;
}
