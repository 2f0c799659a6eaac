import type { AddressTemplates } from './addresses.ts';
import type { LocalMode } from './local.ts';

/** The RunPod endpoint that this worker belongs to, and its settings. */
export interface RunpodQueueSettings {
  /** The platform, or one of the local modes of RunPod's SDK, which stands in for it. */
  at: AddressTemplates | LocalMode;
  /** The id by which the platform calls this worker. */
  workerId: string;
  apiKey: string | undefined;
  pingIntervalMs: number;
  /** True if each result asks the platform for a new worker, and this one ends. */
  refreshes: boolean;
  /** Hosts to which the local API posts, whatever their addresses; null: it posts to any public host over https. */
  webhookHosts: readonly string[] | null;
}
