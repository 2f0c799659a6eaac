import { fileKeyMac } from '../../protocol/index.ts';
import { type QueueSettingBindings, settingsFromBindings } from '../../settings/queue-settings.ts';
import type { Queue } from '../queue.ts';

/** The settings of the queue with this id, read from the bindings. */
export async function givenSettings(
  env: QueueSettingBindings & { FILE_KEY_SECRET?: string; RELAYS_IN_QUEUE?: string },
  queue_id: string,
): Promise<ConstructorParameters<typeof Queue>[1]> {
  const secret = env.FILE_KEY_SECRET;
  const file_key_mac = secret ? await fileKeyMac(secret, queue_id) : '';
  return { queue_id, file_key_mac, ...settingsFromBindings(env) };
}
