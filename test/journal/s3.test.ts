import { afterAll, beforeAll, describe } from 'vitest';
import { S3Journal } from '../../src/host/node/journal/s3.ts';
import { journalContract } from '../support/journal-contract.ts';
import { S3Store, type StoreKind } from '../support/s3-store.ts';

describe.each<StoreKind>(['SeaweedFS', 'moto'])('%s', (kind) => {
  let store: S3Store;
  let made = 0;

  beforeAll(async () => {
    store = await S3Store.make(kind);
  });

  afterAll(() => store.remove());

  journalContract('in an object store', async () => {
    made += 1;
    const address = store.address(`contract & more/${made}`);
    return {
      connect: () => new S3Journal(address, store.env),
      remove: async () => {},
    };
  });
});
