import { QUEUE_SETTINGS, type QueueSettingBindings } from '../../../settings/queue-settings.ts';
import type { ResponsesSettings } from './object.ts';

/** Reads the settings of the object from the bindings of its host. */
export function responsesSettings({
  RESPONSES_RETENTION_SECONDS: seconds,
  CONVERSATIONS_RETENTION_SECONDS: conversations,
}: QueueSettingBindings): ResponsesSettings {
  return {
    retention_seconds: Number(seconds || QUEUE_SETTINGS.responses_retention_seconds.default),
    conversations_retention_seconds: conversations ? Number(conversations) : null,
  };
}
