import { Miniflare, type MiniflareOptions } from 'miniflare';
import { cloudflareBundle, cloudflareConfiguration } from './cloudflare-bundle.ts';

/** The queue in workerd as wrangler runs it locally, with its stand-in for an R2 bucket bound as FILES. */
export interface MiniflareQueue {
  /** The address of the gateway, without a trailing slash. */
  url: string;
  /** The address of another gateway before the same objects, without shared memory: Cloudflare runs many. */
  otherUrl: string;
  /** Keys of all that lies in the bucket. */
  keys(): Promise<string[]>;
  /** Deletes an object of the bucket, as its owner could. */
  lose(key: string): Promise<void>;
  /** Deletes all of it. */
  clear(): Promise<void>;
  /** Statement on the database of a queue's object. */
  sql(queueId: string, query: string): Promise<Record<string, unknown>[]>;
  /** The same of the object of its files. */
  filesSql(queueId: string, query: string): Promise<Record<string, unknown>[]>;
  /** Binds the bucket or takes it away, as another deployment would. */
  bind(isBound: boolean): Promise<void>;
  stop(): Promise<void>;
}

/** @param variables of the gateway and its objects */
export async function startMiniflareQueue(variables: Record<string, string>): Promise<MiniflareQueue> {
  const { main, modules } = await bundled();
  const { compatibility_date, compatibility_flags } = cloudflareConfiguration();
  const object = (exportName: string) => ({ type: 'durable-object' as const, worker: 'queue', exportName });
  const stored = { type: 'durable-object', storage: 'sqlite' } as const;
  const gateway = (isBound: boolean) => ({
    compatibilityDate: compatibility_date,
    compatibilityFlags: compatibility_flags,
    manifest: { mainModule: main, modules },
    env: {
      ...Object.fromEntries(
        Object.entries({ QUEUE_IDS: '*', FILE_KEY_SECRET: 'secret of tests', ...variables }).map(
          ([name, value]) => [name, { type: 'text' as const, value }],
        ),
      ),
      QUEUE: object('QueueObject'),
      RELAY: object('RelayObject'),
      FLEET: object('FleetObject'),
      BATCHES: object('BatchesObject'),
      FILE: object('FileObject'),
      RESPONSES: object('ResponsesObject'),
      ...(isBound ? { FILES: { type: 'r2' as const, name: 'files' } } : {}),
    },
  });
  const options = (isBound: boolean): MiniflareOptions => ({
    host: '127.0.0.1',
    port: 0,
    unsafeInspectDurableObjects: true,
    handleStructuredLogs: () => {},
    // Neither writes outside its own folder nor asks anybody anything.
    cf: false,
    enableDevRegistry: false,
    telemetry: { enabled: false },
    workers: [
      {
        config: {
          name: 'queue',
          ...gateway(isBound),
          exports: {
            QueueObject: stored,
            RelayObject: stored,
            FleetObject: stored,
            BatchesObject: stored,
            FileObject: stored,
            ResponsesObject: stored,
          },
        },
      },
      {
        config: { name: 'other', ...gateway(isBound) },
        dev: { unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }] },
      },
    ],
  });
  const miniflare = new Miniflare(options(true));
  const url = (await miniflare.ready).origin;
  const otherUrl = (await miniflare.unsafeGetDirectURL('other')).origin;
  const keys = async () =>
    (await (await miniflare.getR2Bucket('FILES')).list()).objects.map(({ key }) => key);
  const exec = async (object: string, name: string, query: string) =>
    (await miniflare.unsafeGetDurableObjectStorage('queue', object, { name })).exec(query);
  return {
    url,
    otherUrl,
    keys,
    lose: async (key) => (await miniflare.getR2Bucket('FILES')).delete(key),
    clear: async () => (await miniflare.getR2Bucket('FILES')).delete(await keys()),
    sql: (name, query) => exec('QueueObject', name, query),
    filesSql: (name, query) => exec('FileObject', name, query),
    bind: (isBound) => miniflare.setOptions(options(isBound)),
    stop: () => miniflare.dispose(),
  };
}

/** The modules of what is deployed. */
async function bundled() {
  const { main, page } = await cloudflareBundle();
  return {
    main: main.name,
    modules: {
      [main.name]: { type: 'esm' as const, contents: main.text },
      [page.name]: { type: 'data' as const, contents: page.bytes },
    },
  };
}
