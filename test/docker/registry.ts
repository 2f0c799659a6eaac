import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const MANIFEST = 'application/vnd.docker.distribution.manifest.v2+json';
const digestOf = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/** A registry on this machine, which daemons trust without TLS, with one image: as much of the interface as a pull uses. */
export class Registry {
  readonly #blobs = new Map<string, Buffer>();
  readonly #server: Server;
  #manifest = Buffer.alloc(0);
  /** Until this settles nothing of the image is sent. */
  takes: Promise<void> = Promise.resolve();

  constructor() {
    this.#server = createServer(async ({ url = '' }, response) => {
      const [, kind, reference = ''] = /\/(manifests|blobs)\/(.+)$/.exec(url) ?? [];
      if (url === '/v2/') return void response.end('{}');
      await this.takes;
      const body = kind === 'blobs' ? this.#blobs.get(reference) : this.#manifestOf(url, reference);
      if (!body) {
        const error = { code: 'MANIFEST_UNKNOWN', message: 'manifest unknown' };
        response.writeHead(404, { 'content-type': 'application/json' });
        return void response.end(JSON.stringify({ errors: [error] }));
      }
      const type = kind === 'blobs' ? 'application/octet-stream' : MANIFEST;
      response.writeHead(200, {
        'content-type': type,
        'content-length': body.length,
        'docker-content-digest': digestOf(body),
      });
      response.end(body);
    });
  }

  /** @param image of the daemon, which is served as `image:v1` */
  async serve(image: string): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), 'wv-registry-'));
    try {
      execFileSync('sh', ['-c', 'docker save "$1" | tar -x -C "$2"', 'sh', image, folder]);
      const [saved] = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8'));
      const blob = (path: string, mediaType: string) => {
        const bytes = readFileSync(join(folder, path));
        this.#blobs.set(digestOf(bytes), bytes);
        return { mediaType, size: bytes.length, digest: digestOf(bytes) };
      };
      const layer = 'application/vnd.docker.image.rootfs.diff.tar.gzip';
      const manifest = {
        schemaVersion: 2,
        mediaType: MANIFEST,
        config: blob(saved.Config, 'application/vnd.docker.container.image.v1+json'),
        layers: saved.Layers.map((path: string) => blob(path, layer)),
      };
      this.#manifest = Buffer.from(JSON.stringify(manifest));
    } finally {
      rmSync(folder, { recursive: true });
    }
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  /** As an image is named that comes from here. */
  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  #manifestOf(url: string, reference: string): Buffer | null {
    const isOurs = url.includes('/image/') && (reference === 'v1' || reference === digestOf(this.#manifest));
    return isOurs ? this.#manifest : null;
  }
}
