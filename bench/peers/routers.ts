import { installed, type Peer, type Place } from './peer.ts';

/** vLLM's router, in Rust. */
export const vllmRouter: Peer = {
  name: "vLLM's router",
  program: installed('routers', 'vllm-router'),
  commands(place) {
    return [{ program: this.program, args: roundRobinArgs(place) }];
  },
};

/** SGLang's, in Rust, which vLLM's came from. */
export const sglangRouter: Peer = {
  name: "SGLang's router",
  program: installed('routers', 'sglang-router'),
  commands: (place) => [
    {
      program: installed('routers', 'python'),
      args: ['-m', 'sglang_router.launch_router', ...roundRobinArgs(place)],
    },
  ],
};

/** Returns the arguments of both routers. */
function roundRobinArgs({ engineUrl, port, metricsPort }: Place): string[] {
  return [
    ...['--host', '127.0.0.1', '--port', String(port), '--worker-urls', engineUrl],
    ...['--policy', 'round_robin', '--prometheus-port', String(metricsPort)],
  ];
}

/** Not on PyPI: docs/performance.md says how it is installed from its repository. */
export const productionStack: Peer = {
  name: 'production-stack',
  program: installed('production-stack', 'vllm-router'),
  commands({ engineUrl, port }) {
    const args = [
      ...['--host', '127.0.0.1', '--port', String(port), '--service-discovery', 'static'],
      ...['--static-backends', engineUrl, '--static-models', 'tiny', '--routing-logic', 'roundrobin'],
    ];
    return [{ program: this.program, args }];
  },
};
