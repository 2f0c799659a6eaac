import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { stringify } from 'yaml';
import { stateFolder } from '../support/road.ts';
import { config } from './cluster.ts';

/**
 * Stands between a launcher and the API server. Creates of pods pass, are held before they reach it, or are carried out
 * and their answer kept.
 */
export class ApiProxy {
  creates: 'pass' | 'hold' | 'keep the answer' = 'pass';
  /** Creates that were held or not answered. */
  caught = 0;
  readonly #server = createServer((incoming, response) => void this.#pass(incoming, response));
  readonly #held: (() => void)[] = [];

  /** @returns the path of a kubeconfig that leads here */
  async listen(): Promise<string> {
    await new Promise<void>((done) => this.#server.listen(0, '127.0.0.1', done));
    const server = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    const path = join(stateFolder(), 'kubeconfig');
    const text = stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'proxy', cluster: { server, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'admin', user: { token: config.getCurrentUser()?.token } }],
      contexts: [{ name: 'proxy', context: { cluster: 'proxy', user: 'admin' } }],
      'current-context': 'proxy',
    });
    writeFileSync(path, text);
    return path;
  }

  /** What was held goes its way, whoever waits for it. */
  release(): void {
    for (const go of this.#held.splice(0)) go();
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #pass(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(incoming);
    const isCreate = incoming.method === 'POST' && incoming.url!.split('?')[0]!.endsWith('/pods');
    const fate = isCreate ? this.creates : 'pass';
    if (fate !== 'pass') this.caught++;
    if (fate === 'hold') await new Promise<void>((go) => this.#held.push(go));
    const { server, caFile, caData } = config.getCurrentCluster()!;
    const ca = caFile ? readFileSync(caFile) : Buffer.from(caData ?? '', 'base64');
    const { host: _, ...headers } = incoming.headers;
    const to = request(`${server}${incoming.url}`, { method: incoming.method!, headers, ca }, (answer) => {
      if (fate === 'keep the answer') return void answer.resume();
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    to.on('error', () => response.destroy());
    to.end(body);
  }
}
