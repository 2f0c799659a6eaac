import { fileKeyMac } from '../../protocol/index.ts';
import { settingsFromBindings } from '../../settings/queue-settings.ts';
import type { Queue } from '../queue.ts';
import type { QueueObjectSettings } from './env.ts';

/** Reads the settings of the queue with this id from the bindings. */
export async function givenSettings(
  settings: QueueObjectSettings,
  queue_id: string,
): Promise<ConstructorParameters<typeof Queue>[1]> {
  const secret = settings.FILE_KEY_SECRET;
  const file_key_mac = secret ? await fileKeyMac(secret, queue_id) : '';
  return { queue_id, file_key_mac, ...settingsFromBindings(settings) };
}
