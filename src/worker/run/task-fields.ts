import * as z from 'zod';
import { parseValue } from '../../protocol/index.ts';
import type { Attempt } from './attempt.ts';

const Named = z.looseObject({ model: z.string().nullish() });

/** The name to ask the engine for in a task's request: every task may name a model, and none has to. */
export function modelOf(attempt: Attempt): string {
  const parsed = parseValue(Named, attempt.payload);
  const asked = parsed.ok ? parsed.value.model : null;
  return attempt.modelFor(asked || 'default');
}
