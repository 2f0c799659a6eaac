import * as z from 'zod';
import { FILE_PURPOSES } from '../../files/rpc.ts';

const seconds = z.number().int();

/** As OpenAI's API shows a file. */
export const StoredFile = z.object({
  id: z.string(),
  object: z.literal('file'),
  bytes: z.number().int(),
  created_at: seconds,
  expires_at: seconds.nullable(),
  filename: z.string(),
  purpose: z.enum(FILE_PURPOSES),
  status: z.literal('processed'),
  status_details: z.null(),
});

export const StoredFileList = z.object({
  object: z.literal('list'),
  data: z.array(StoredFile),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});
