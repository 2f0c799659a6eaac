import type { EngineDescription } from '../engine/kinds/description.ts';
import type { EngineLayer } from '../worker/ports.ts';
import { ChatAlone } from './responses/worker/chat-alone.ts';

/** Returns what each feature puts between a worker's jobs and its engine, the innermost first. */
export function engineLayers({ hasChatAlone }: EngineDescription): EngineLayer[] {
  return [new ChatAlone(hasChatAlone)];
}
