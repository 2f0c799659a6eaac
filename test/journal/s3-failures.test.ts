import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Entry, Taken } from '../../src/host/node/journal/journal.ts';
import { S3Journal } from '../../src/host/node/journal/s3.ts';
import { S3Bucket } from '../../src/host/node/journal/s3-bucket.ts';
import { UserError } from '../../src/process/index.ts';
import { AlteredStore } from '../support/altered-store.ts';
import { freePort } from '../support/ports.ts';
import { S3Store } from '../support/s3-store.ts';

const HOUR_MS = 3_600_000;

let store: S3Store;
let altered: AlteredStore;
let address: string;
let made = 0;

beforeAll(async () => {
  store = await S3Store.make('moto');
});

afterAll(() => store.remove());

beforeEach(async () => {
  altered = await AlteredStore.before(store.port);
  made += 1;
  address = store.address(String(made));
});

afterEach(() => altered.close());

/** Returns a journal that reaches the store directly. */
function direct(): S3Journal {
  return new S3Journal(address, store.env);
}

/** Returns a journal that reaches the store through what alters it. */
function throughIt(): S3Journal {
  return new S3Journal(address, { ...store.env, ...altered.env });
}

function bucketOf(): S3Bucket {
  return new S3Bucket(address, store.env);
}

function entry(seq: number, epoch = 1): Entry {
  return { seq, epoch, body: Buffer.from(`entry ${seq} of ${epoch}`) };
}

function soon(): AbortSignal {
  return AbortSignal.timeout(30_000);
}

/** Makes a refusal of the next PUT alone. */
function oncePut(instead: { status: number; code: string }) {
  let left = 1;
  return ({ method }: { method: string }) => (method === 'PUT' && left-- > 0 ? instead : undefined);
}

/** Sets the clock of the store, as it is seen through what alters it. */
function setClock(aheadMs: number): void {
  altered.onAnswer = (_, headers) => {
    headers.date = new Date(Date.now() + aheadMs).toUTCString();
    return undefined;
  };
}

describe('a store that is not as a journal needs it', () => {
  it.each(['if-none-match', 'if-match'])('is refused if it ignores %s', async (name) => {
    altered.onRequest = ({ headers }) => void delete headers[name];
    const opening = throughIt().open();
    await expect(opening).rejects.toThrow(UserError);
    await expect(opening).rejects.toThrow('ignores If-None-Match or If-Match');
  });

  it.each([
    { status: 501, code: 'NotImplemented' },
    { status: 403, code: 'AccessDenied' },
    { status: 301, code: 'PermanentRedirect' },
  ])('is refused in words if it answers $code', async (instead) => {
    altered.onRequest = () => instead;
    const opening = throughIt().open();
    await expect(opening).rejects.toThrow(UserError);
    await expect(opening).rejects.toThrow(`refuses its use: ${instead.code}`);
  });

  it('is refused if there is no bucket, or another secret', async () => {
    const other = new S3Journal('s3://elsewhere/1', store.env);
    await expect(other.open()).rejects.toThrow('refuses its use: NoSuchBucket');
    const real = await S3Store.make('SeaweedFS');
    try {
      const journal = new S3Journal(address, { ...real.env, AWS_SECRET_ACCESS_KEY: 'wrong' });
      await expect(journal.open()).rejects.toThrow('refuses its use: SignatureDoesNotMatch');
      await expect(new S3Journal(address, real.env).open()).resolves.toBeUndefined();
    } finally {
      await real.remove();
    }
  });

  it('is waited for if it has a fault, or is not there', async () => {
    altered.onRequest = () => ({ status: 503, code: 'SlowDown' });
    await expect(throughIt().open()).rejects.not.toThrow(UserError);
    const nowhere = new S3Journal(address, {
      ...store.env,
      AWS_ENDPOINT_URL: `http://127.0.0.1:${await freePort()}`,
    });
    await expect(nowhere.open()).rejects.toThrow('ECONNREFUSED');
    await expect(nowhere.open()).rejects.not.toThrow(UserError);
  });

  it('needs an address and keys', () => {
    expect(() => new S3Journal('s3://', store.env)).toThrow('s3://BUCKET/PREFIX');
    expect(() => new S3Journal(address, {})).toThrow('AWS_ACCESS_KEY_ID');
    expect(() => new S3Journal(address, { ...store.env, AWS_ENDPOINT_URL: 'here' })).toThrow(
      'AWS_ENDPOINT_URL',
    );
  });
});

describe('an append', () => {
  it('is sent again if it met another write of the same key', async () => {
    const journal = throughIt();
    altered.onRequest = oncePut({ status: 409, code: 'ConditionalRequestConflict' });
    await journal.append(entry(1));
    expect(await direct().last()).toEqual({ seq: 1, epoch: 1 });
  });

  it('without an answer may have been carried out', async () => {
    const journal = throughIt();
    await journal.append(entry(1));
    altered.onAnswer = oncePut({ status: 500, code: 'InternalError' });
    await expect(journal.append(entry(2))).rejects.toThrow('InternalError');
    await expect(journal.append(entry(2))).rejects.toThrow(Taken);
    expect(await journal.read(1, 1)).toEqual([expect.objectContaining({ seq: 2, epoch: 1 })]);
    await journal.append(entry(3));
  });

  it('takes no number that was trimmed while its process was stopped', async () => {
    const [stopped, next] = [throughIt(), direct()];
    await stopped.append(entry(1));
    for (let seq = 2; seq <= 6; seq += 1) await next.append(entry(seq, 2));
    await next.trim(5);
    setClock(HOUR_MS);
    await expect(stopped.append(entry(2))).rejects.toThrow(Taken);
    expect((await next.read(0, 10)).map(({ seq }) => seq)).toEqual([5, 6]);
    expect(await stopped.last()).toEqual({ seq: 6, epoch: 2 });
  });
});

it('sends the parts of a snapshot again if the store is too busy', async () => {
  const journal = throughIt();
  altered.onRequest = oncePut({ status: 503, code: 'SlowDown' });
  const chunks = async function* () {
    for (const text of ['one', 'two']) yield { name: 'a/queue.sqlite', bytes: Buffer.from(text) };
  };
  await journal.saveSnapshot({ seq: 7, chunks: chunks() });
  const texts: string[] = [];
  const snapshot = await direct().newestSnapshot();
  for await (const { bytes } of snapshot!.chunks) texts.push(Buffer.from(bytes).toString());
  expect(texts).toEqual(['one', 'two']);
});

it('finds the last of many entries', async () => {
  const bucket = bucketOf();
  const keys = Array.from({ length: 1100 }, (_, index) => `journal/${String(index + 1).padStart(16, '0')}`);
  while (keys.length > 0)
    await Promise.all(
      keys.splice(0, 32).map((key) => bucket.put(key, 'x', soon(), { 'x-amz-meta-epoch': '7' })),
    );
  const journal = direct();
  expect(await journal.last()).toEqual({ seq: 1100, epoch: 7 });
  await journal.append(entry(1101, 7));
  expect(await journal.last()).toEqual({ seq: 1101, epoch: 7 });
});

it('removes the parts of snapshots that were not finished or were trimmed, after a while', async () => {
  const [journal, later] = [direct(), throughIt()];
  setClock(2 * HOUR_MS);
  await journal.append(entry(1));
  await journal.append(entry(2));
  async function* broken() {
    yield { name: 'one', bytes: Buffer.from('one') };
    throw new Error('the disk is gone');
  }
  async function* whole() {
    yield { name: 'one', bytes: Buffer.from('one') };
  }
  const parts = async () => (await bucketOf().list('parts/', '', 1000, soon())).names.length;
  await expect(journal.saveSnapshot({ seq: 2, chunks: broken() })).rejects.toThrow('the disk is gone');
  await journal.saveSnapshot({ seq: 1, chunks: whole() });
  await journal.saveSnapshot({ seq: 2, chunks: whole() });
  await journal.trim(2);
  expect(await parts()).toBe(3);
  await later.trim(2);
  expect(await parts()).toBe(1);
  expect(await journal.newestSnapshot()).toMatchObject({ seq: 2 });
});

it('holds no call up when the store hangs', async () => {
  const journal = direct();
  await journal.append(entry(1));
  store.pause('SIGSTOP');
  try {
    const lease = { epoch: 1, address: '' };
    const calls = [
      journal.append(entry(2)),
      journal.last(),
      journal.read(0, 1),
      journal.renewLease(lease, 3000),
    ];
    for (const call of await Promise.allSettled(calls)) expect(call.status).toBe('rejected');
  } finally {
    store.pause('SIGCONT');
  }
});
