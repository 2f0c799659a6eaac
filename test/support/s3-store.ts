import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensureJournalServers } from '../../scripts/journal-servers/setup.ts';
import { S3Bucket } from '../../src/host/node/journal/s3-bucket.ts';
import { until } from './poll.ts';
import { freePort } from './ports.ts';
import { type Child, startProcess } from './processes.ts';

export type StoreKind = 'SeaweedFS' | 'moto';

const BUCKET = 'journals';
const KEYS = { AWS_ACCESS_KEY_ID: 'test-key', AWS_SECRET_ACCESS_KEY: 'test-secret' };
const MAY_DO = ['Admin', 'Read', 'Write', 'List'];

/** An object store with S3's API and a bucket, its data in a temporary folder or in memory. */
export class S3Store {
  readonly #kind: StoreKind;
  readonly #folder: string;
  readonly port: number;
  #child: Child | null = null;

  private constructor(kind: StoreKind, folder: string, port: number) {
    this.#kind = kind;
    this.#folder = folder;
    this.port = port;
  }

  static async make(kind: StoreKind): Promise<S3Store> {
    const store = new S3Store(kind, await mkdtemp(join(tmpdir(), 's3-store-')), await freePort());
    await store.start();
    const bucket = new S3Bucket(`s3://${BUCKET}`, store.env);
    await until(() => bucket.put('', '', AbortSignal.timeout(5000)), 'the bucket is made');
    // SeaweedFS makes its first volumes when the first object comes, which takes seconds.
    await until(() => bucket.put('first', 'x', AbortSignal.timeout(30_000)), 'the store takes objects');
    return store;
  }

  /** The variables with which a journal reaches it. */
  get env(): Record<string, string> {
    return { ...KEYS, AWS_REGION: 'us-east-1', AWS_ENDPOINT_URL: `http://127.0.0.1:${this.port}` };
  }

  /** Returns the address of a journal in its bucket. */
  address(prefix: string): string {
    return `s3://${BUCKET}/${prefix}`;
  }

  async start(): Promise<void> {
    const { moto, weed } = await ensureJournalServers();
    const [command, ...args] = this.#kind === 'moto' ? moto : [weed, ...(await this.#weedArgs())];
    if (this.#kind === 'moto') args.push(String(this.port));
    this.#child = startProcess(command, args, { name: this.#kind, cwd: this.#folder });
  }

  /** Ends as the machine would. What moto had is gone. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    child?.kill('SIGKILL');
    await child?.stop();
  }

  /** Holds the store, or lets it go on: connections stay, and nobody is answered. */
  pause(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(signal);
  }

  async remove(): Promise<void> {
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #weedArgs(): Promise<string[]> {
    const credentials = { accessKey: KEYS.AWS_ACCESS_KEY_ID, secretKey: KEYS.AWS_SECRET_ACCESS_KEY };
    const config = { identities: [{ name: 'test', credentials: [credentials], actions: MAY_DO }] };
    const configFile = join(this.#folder, 's3.json');
    await writeFile(configFile, JSON.stringify(config));
    const ports = await Promise.all(
      ['master.port', 'volume.port', 'filer.port'].map(async (name) => `-${name}=${await freePort()}`),
    );
    const own = [`-dir=${this.#folder}`, `-s3.config=${configFile}`, `-s3.port=${this.port}`];
    const small = ['-master.volumeSizeLimitMB=64', '-volume.max=16'];
    return [
      `-logdir=${this.#folder}`,
      'server',
      '-ip=127.0.0.1',
      '-ip.bind=127.0.0.1',
      '-s3',
      ...own,
      ...ports,
      ...small,
    ];
  }
}
