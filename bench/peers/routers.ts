import { installed, type Peer } from './peer.ts';

/** vLLM's router, in Rust. */
export const vllmRouter: Peer = {
  name: "vLLM's router",
  program: installed('routers', 'vllm-router'),
  commands: ({ engineUrl, port, metricsPort }) => [
    {
      program: installed('routers', 'vllm-router'),
      args: [
        '--host',
        '127.0.0.1',
        '--port',
        String(port),
        '--worker-urls',
        engineUrl,
        '--policy',
        'round_robin',
        '--prometheus-port',
        String(metricsPort),
      ],
    },
  ],
};

/** SGLang's, in Rust, which vLLM's came from. */
export const sglangRouter: Peer = {
  name: "SGLang's router",
  program: installed('routers', 'sglang-router'),
  commands: ({ engineUrl, port, metricsPort }) => [
    {
      program: installed('routers', 'python'),
      args: [
        ...['-m', 'sglang_router.launch_router', '--host', '127.0.0.1', '--port', String(port)],
        ...['--worker-urls', engineUrl, '--policy', 'round_robin', '--prometheus-port', String(metricsPort)],
      ],
    },
  ],
};

/** Not on PyPI: docs/performance.md says how it is installed from its repository. */
export const productionStack: Peer = {
  name: 'production-stack',
  program: installed('production-stack', 'vllm-router'),
  commands: ({ engineUrl, port }) => [
    {
      program: installed('production-stack', 'vllm-router'),
      args: [
        ...['--host', '127.0.0.1', '--port', String(port), '--service-discovery', 'static'],
        ...['--static-backends', engineUrl, '--static-models', 'tiny', '--routing-logic', 'roundrobin'],
      ],
    },
  ],
};
