import { completeQueueSettings, type QueueSettingValues } from '../settings/queue-settings.ts';

/** The durations and limits of one queue, from the table of settings. */
export type QueueSettings = {
  queue_id: string;
  /** The beginning of the keys of the queue's files (protocol/file-keys.ts); empty where no secret is configured. */
  file_key_mac: string;
} & QueueSettingValues;

/** The settings that were given; those left out have their defaults. */
export type GivenSettings = Partial<QueueSettings> & Pick<QueueSettings, 'queue_id'>;

export function completeSettings(given: GivenSettings): QueueSettings {
  return {
    queue_id: given.queue_id,
    file_key_mac: given.file_key_mac ?? '',
    ...completeQueueSettings(given),
  };
}
