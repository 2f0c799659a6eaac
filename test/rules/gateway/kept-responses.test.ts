import { expect, test } from 'vitest';
import type { Env } from '../../../src/gateway/env.ts';
import { ownerOf } from '../../../src/gateway/inference/kept-responses.ts';

test.each(['resp_1', '%zz', '%'])(
  'a response that nobody has is not found, whatever its id: %s',
  async (id) => {
    const fleet = { ownerOfResponse: async () => null };
    const env = { FLEET: { getByName: () => fleet } } as unknown as Env;
    await expect(ownerOf(env, 'q', `/v1/responses/${id}`, null, null)).rejects.toMatchObject({ status: 404 });
  },
);
