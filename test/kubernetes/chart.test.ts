import { basename, join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { ensureHelm, type Render } from '../../scripts/helm/setup.ts';
import { objectsOf } from './manifests.ts';

/** What Helm makes of deploy/helm/worker-vllm. */

const CHART = join(import.meta.dirname, '../../deploy/helm/worker-vllm');
let render: Render;

beforeAll(async () => {
  render = await ensureHelm();
});

/** The objects of each template, with these values in place of the chart's own. */
function rendered(values: object): Record<string, unknown[]> {
  const { messages, manifests } = render(CHART, values);
  expect(messages.filter(({ severity }) => severity > 1)).toEqual([]);
  return Object.fromEntries(
    Object.entries(manifests).map(([path, text]) => [
      basename(path),
      parseAllDocuments(text, { version: '1.1' }).map((document) => {
        expect(document.errors).toEqual([]);
        return document.toJS();
      }),
    ]),
  );
}

it('is the manifests of deploy/kubernetes/replicated', () => {
  expect(rendered({})).toEqual({
    'gateway.yaml': objectsOf('replicated/gateway.yaml'),
    'queue.yaml': objectsOf('replicated/queue.yaml'),
  });
});

it('takes names, image, secret, variables, storage and sizes from its values', () => {
  const text = JSON.stringify(
    rendered({
      name: 'other',
      image: 'registry.example.com/queue:1',
      imagePullSecrets: [{ name: 'pull' }],
      secret: 'theirs',
      queue: {
        env: { QUEUE_IDS: 'team-*' },
        storage: '50Gi',
        storageClass: 'fast',
        resources: { limits: {} },
      },
      gateways: { min: 3, max: 20, targetCpu: 60, drainSeconds: 60, env: { LOG_LEVEL: 'debug', A: 1 } },
    }),
  );
  expect(text).not.toMatch(/"(?:name|key)":"worker-vllm|ghcr\.io|10Gi/);
  for (const part of [
    '"serviceName":"other-queue-pods"',
    '"value":"http://other-queue-0.other-queue-pods:8788,http://other-queue-1.other-queue-pods:8788"',
    '"imagePullSecrets":[{"name":"pull"}]',
    '"secretKeyRef":{"name":"theirs","key":"journal"}',
    '{"name":"QUEUE_IDS","value":"team-*"}',
    '{"name":"A","value":"1"}',
    '"storageClassName":"fast"',
    '"minReplicas":3,"maxReplicas":20',
    '"averageUtilization":60',
    '"terminationGracePeriodSeconds":80',
  ]) {
    expect(text).toContain(part);
  }
});
