import * as z from 'zod';

/** Schemas of kept requests, for the OpenAPI document. */

const count = z.number().int().min(0);

export const KeptRequests = z.object({
  keeps: z.string().describe('QUEUE_KEEP_REQUESTS.'),
  hours: z.array(z.object({ start: z.iso.datetime(), records: count, bytes: count })),
  records: count,
  bytes: count,
});

export const KeptRequest = z
  .object({
    time: z.iso.datetime().describe('When the answer was over.'),
    'event.name': z.literal('gen_ai.client.inference.operation.details'),
    'gen_ai.operation.name': z.string(),
    'worker_vllm.job.id': z.string(),
    'worker_vllm.request.id': z.string(),
    'worker_vllm.tenant': z.string().nullable(),
    'worker_vllm.token': z.string().nullable(),
    'worker_vllm.worker.id': z.string().nullable(),
    'worker_vllm.outcome': z.enum(['succeeded', 'failed', 'broken_off']),
  })
  .catchall(z.unknown());

export const ErasedRequests = z.object({ erased: count });
