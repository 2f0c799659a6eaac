import type { AddressTemplates } from './addresses.ts';
import type { LocalMode } from './local.ts';

/** How this worker belongs to a RunPod endpoint. */
export interface RunpodQueueSettings {
  /** The platform, or one of the local modes of RunPod's SDK, which stands in for it. */
  at: AddressTemplates | LocalMode;
  /** As the platform calls this worker. */
  workerId: string;
  apiKey: string | undefined;
  pingIntervalMs: number;
  /** Each result asks the platform for a new worker, and this one ends. */
  refreshes: boolean;
  /** Hosts to which the local API posts, whatever their addresses; null: it posts to any public host over https. */
  webhookHosts: readonly string[] | null;
}
