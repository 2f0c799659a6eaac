import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { EXIT, UserError } from '../../process/exit-codes.ts';
import type { Ports } from '../ports.ts';
import { MetricsPage } from './metrics-page.ts';
import type { Report, WorkerStatus } from './worker-status.ts';

/** Returns the body of the worker's own `GET /healthz`, with Dynamo's names where it has them. */
function healthOf(report: Report) {
  const { gpus = [] } = report;
  const reason = reasonOf(report);
  return {
    /** `healthy` while the worker takes jobs. */
    status: reason === null ? 'healthy' : 'unhealthy',
    /** Why the worker is unhealthy, for people. */
    ...(reason === null ? {} : { reason }),
    worker_id: report.worker_id,
    config_id: report.config_id,
    model_name: report.model ?? null,
    engine: report.engine ?? null,
    engine_version: report.engine_version ?? null,
    /** The jobs that run, and how many may run. */
    running: report.running,
    capacity: report.capacity,
    /** The memory of all the worker's GPUs, bytes; null: not known. */
    gpu_memory_used: sumOf(gpus.map((gpu) => gpu.memory_used_bytes)),
    gpu_memory_total: sumOf(gpus.map((gpu) => gpu.memory_total_bytes)),
    gpus,
  };
}

function reasonOf({ status, phase, progress }: Report): string | null {
  switch (status) {
    case 'running':
      return null;
    case 'draining':
      return 'it drains: it finishes what runs, and ends';
    case 'starting':
      return `it starts: ${phase}${progress === undefined ? '' : `, ${Math.floor(progress * 100)} %`}`;
    case null:
      return 'its engine is not healthy, or it has no connection to the queue; its log says which';
  }
}

function sumOf(values: (number | undefined)[]): number | null {
  const known = values.filter((value) => value !== undefined);
  return known.length === 0 ? null : known.reduce((total, value) => total + value, 0);
}

export interface LocalPort {
  /** Stops to listen, and ends requests in progress. */
  close(): void;
}

/**
 * Serves `/metrics` and `/healthz` of one worker. This module loads the metrics library, so it is imported only where
 * the port is wanted.
 * @throws UserError when the port is in use or cannot be listened on
 */
export async function openLocalPort(
  { host, port }: { host: string; port: number },
  status: WorkerStatus,
  engine: Ports['engine'],
): Promise<LocalPort> {
  const page = new MetricsPage();
  status.onAttempt = (attempt) => page.attemptEnded(attempt);

  async function metrics(response: ServerResponse): Promise<void> {
    const report = await status.report();
    // The page of an engine that starts would have to be waited for.
    const enginePage = report.status === 'starting' ? null : await engine.metricsPage();
    send(response, 200, 'text/plain; version=0.0.4; charset=utf-8', await page.text(report, enginePage));
  }

  async function health(response: ServerResponse): Promise<void> {
    const payload = healthOf(await status.report());
    const code = payload.status === 'healthy' ? 200 : 503;
    send(response, code, 'application/json', `${JSON.stringify(payload)}\n`);
  }

  const routes: Record<string, (response: ServerResponse) => Promise<void>> = {
    '/metrics': metrics,
    '/healthz': health,
  };
  const server = createServer((request, response) => {
    const route = routes[(request.url ?? '').split('?', 1)[0]!];
    if (!route) return send(response, 404, 'text/plain', 'There are /metrics and /healthz here.\n');
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD');
      return send(response, 405, 'text/plain', 'GET, please.\n');
    }
    route(response).catch((error: unknown) => send(response, 500, 'text/plain', `${String(error)}\n`));
  });
  server.listen(port, host);
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') {
      throw new UserError(
        `Port ${port} at ${host} is in use: stop what listens there, or set another WORKER_METRICS_PORT.`,
        EXIT.portInUse,
      );
    }
    throw new UserError(
      `The worker cannot listen on WORKER_METRICS_HOST=${host} WORKER_METRICS_PORT=${port}: ${error.message}.`,
    );
  });
  return {
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function send(response: ServerResponse, status: number, contentType: string, body: string): void {
  response.writeHead(status, { 'content-type': contentType, 'cache-control': 'no-store' }).end(body);
}
