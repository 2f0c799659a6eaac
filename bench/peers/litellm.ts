import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { installed, type Peer } from './peer.ts';

/** LiteLLM's proxy with one model of one engine. JSON is YAML too. */
export const liteLlm: Peer = {
  name: 'LiteLLM',
  program: installed('litellm', 'litellm'),
  commands({ engineUrl, port, folder }) {
    const file = join(folder, 'config.yaml');
    const engine = { model: 'openai/tiny', api_base: `${engineUrl}/v1`, api_key: 'none' };
    writeFileSync(file, JSON.stringify({ model_list: [{ model_name: 'tiny', litellm_params: engine }] }));
    return [
      {
        program: this.program,
        args: ['--config', file, '--host', '127.0.0.1', '--port', String(port)],
        // No prices of models from elsewhere; and no key, as nothing else here has one.
        env: {
          LITELLM_LOCAL_MODEL_COST_MAP: 'True',
          LITELLM_MODE: 'PRODUCTION',
          LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY: 'true',
        },
      },
    ];
  },
};
