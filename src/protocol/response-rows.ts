import * as z from 'zod';
import { RESPONSE_STATUSES } from './response-statuses.ts';

/** Describes what the lists of stored responses say of each, and nothing of what was said in it. */

const ms = z.number().int().describe('Epoch ms.');

export const ResponseRow = z.object({
  id: z.string(),
  status: z.enum(RESPONSE_STATUSES),
  model: z.string().nullable(),
  tenant: z.string().nullable(),
  token_name: z.string().nullable(),
  is_background: z.boolean(),
  previous_response_id: z.string().nullable(),
  conversation: z.string().nullable().describe('The id of its conversation.'),
  created_at: ms,
  ended_at: ms.nullable(),
  expires_at: ms.describe('Until then it is stored.'),
});

export const ResponseRowPage = z.object({
  responses: z.array(ResponseRow),
  next: z.string().nullable().describe('The cursor of the next page; null: there is none.'),
});

export const ResponsePlace = z.object({
  response: ResponseRow,
  chain: z.array(ResponseRow).describe('The responses before it, the last one first.'),
  is_cut: z
    .boolean()
    .describe('Whether there are more of them than are listed, or one is not stored any more.'),
  conversation: z
    .object({
      id: z.string(),
      items: z.number().int().describe('How many items it has.'),
      created_at: ms,
      changed_at: ms,
      locked_by: z.string().nullable().describe('The response that is being made in it.'),
    })
    .nullable(),
});

export type ResponseRow = z.infer<typeof ResponseRow>;
export type ResponsePlace = z.infer<typeof ResponsePlace>;
