import { type MiniflareQueue, startMiniflareQueue } from './miniflare-queue.ts';
import { until } from './poll.ts';
import { closeRawWorkers, RawWorker } from './raw-worker.ts';

const TOKEN = 'secret';
const SHA256 = '2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b';

/** Queues in a real process, for tests of what machines are told of them. */
export interface MetricsRoad {
  url: string;
  /** Headers of a request for this queue. */
  headers(queue: string): Record<string, string>;
  get(queue: string, path: string): Promise<Response>;
  metrics(queue: string): Promise<string>;
  /** Runs two stored jobs of the pool "cfg": one succeeds, the other runs on. Both objects know of it by then. */
  runJobs(queue: string): Promise<void>;
  stop(): Promise<void>;
}

export async function startMetricsRoad(): Promise<MetricsRoad> {
  const tokens = [{ name: 'all', sha256: SHA256, scopes: ['admin'] }];
  const road = await startMiniflareQueue({ TOKENS: JSON.stringify(tokens) });
  const headers = (queue: string) => ({ authorization: `Bearer ${TOKEN}`, 'x-queue-id': queue });
  const get = (queue: string, path: string) => fetch(road.url + path, { headers: headers(queue) });
  const metrics = async (queue: string) => (await get(queue, '/metrics')).text();
  return {
    url: road.url,
    headers,
    get,
    metrics,
    runJobs: async (queue) => {
      await runJobs(road, queue, headers(queue));
      const shown = /_workers\{pool="cfg",status="running"\} 1/;
      await until(async () => shown.test(await metrics(queue)), 'the fleet object has heard of the worker');
    },
    stop: async () => {
      closeRawWorkers();
      await road.stop();
    },
  };
}

async function runJobs(road: MiniflareQueue, queue: string, headers: Record<string, string>): Promise<void> {
  const worker = await new RawWorker(road.url, TOKEN).connect(queue);
  await worker.register('w', { config_id: 'cfg', capacity: 1, instance: { id: 'w', models: ['tiny'] } });
  const job = { job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] } };
  const submitted = await fetch(`${road.url}/api/jobs`, {
    method: 'POST',
    headers,
    body: JSON.stringify([job, job]),
  });
  if (!submitted.ok) throw new Error(await submitted.text());
  worker.result(await worker.job());
  await worker.next('ack');
}
