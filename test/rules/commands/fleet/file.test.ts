import { describe, expect, it } from 'vitest';
import { readFleetText } from '../../../../src/commands/fleet/file.ts';

/** As they would be printed, without the file's name. */
function said(text: string, env: NodeJS.ProcessEnv = {}) {
  const { faults, warnings, spec } = readFleetText(text, env);
  const lines = (findings: typeof faults) =>
    findings.map(({ line, column, path, text: what }) => `${line}:${column}: ${path}: ${what}`);
  return { faults: lines(faults), warnings: lines(warnings), spec };
}

const GOOD = `
budget: { per_hour: 2 }
providers:
  here: { driver: process, gpus: [0, 1] }
pools:
  llama-8b:
    model: meta-llama/Llama-3.1-8B-Instruct
    env: { MAX_MODEL_LEN: 8192, VLLM_STARTUP_TIMEOUT: 900, VLLM_USE_V1: 1, NCCL_DEBUG: INFO }
    keep_warm: 5m
    max: 2
    machines: [{ provider: here, price_per_hour: 1 }]
`;

describe('a fleet file', () => {
  it('is read with its defaults, durations in seconds and variables as texts', () => {
    const { faults, warnings, spec } = said(GOOD);
    expect([faults, warnings]).toEqual([[], []]);
    expect(spec?.pools['llama-8b']).toMatchObject({
      keep_warm: 300,
      min: 0,
      slots: 8,
      engine: 'vllm',
      env: { MAX_MODEL_LEN: '8192' },
    });
  });

  it('names no adapter as its model or its pool', () => {
    const adapters = '[{ name: tiny, source: o/a }, { name: p, source: o/b }, { name: sql, source: o/c }]';
    const { faults } = said(`
providers: { here: { driver: process } }
pools: { p: { model: tiny, adapters: ${adapters}, machines: [{ provider: here, price_per_hour: 1 }] } }
`);
    expect(faults).toEqual([
      expect.stringMatching(/pools\.p\.adapters\[0\]\.name: "tiny" is the model's or the pool's own name/),
      expect.stringMatching(/pools\.p\.adapters\[1\]\.name: "p" is/),
    ]);
  });

  it('has all its faults told at once, each at its line and column, in words', () => {
    const { faults, spec } = said(`
budgett: 5
providers:
  here: { driver: proces }
  pods: { driver: kubernetes, max: 0, namespaces: a }
pools:
  llama:
    engine: vlm
    model: 3
    min: 4
    slot: 4
    keep_warm: five minutes
    machines:
      - provider: x
        gpu: 1
  Big: { model: m, machines: [{ provider: here }] }
  none: { model: m }
`);
    expect(spec).toBeNull();
    expect(faults).toEqual([
      '2:1: budgett: is not known here; did you mean budget?',
      '4:19: providers.here.driver: expected process, docker, kubernetes, runpod, vast or dstack, not "proces"; did you mean process?',
      '5:36: providers.pods.max: expected at least 1, not 0',
      '5:39: providers.pods.namespaces: is not known here; did you mean namespace?',
      '8:13: pools.llama.engine: expected vllm, sglang, llama-cpp, fastdeploy, simulator or external, not "vlm"; did you mean vllm?',
      '9:12: pools.llama.model: expected a text, not 3',
      '10:10: pools.llama.min: min is 4, more than max, 1',
      '11:5: pools.llama.slot: is not known here; did you mean slots?',
      '12:16: pools.llama.keep_warm: expected a duration such as 30s, 5m or 2h, not "five minutes"',
      '14:19: pools.llama.machines[0].provider: there is no provider "x" under providers, only here, pods',
      '15:9: pools.llama.machines[0].gpu: is not known here; did you mean gpus?',
      '16:3: pools.Big: expected 1 to 32 lower-case letters, digits and hyphens',
      '17:3: pools.none.machines: is missing',
    ]);
  });

  it('is told what Kubernetes would drop or refuse', () => {
    const { spec, faults } = said(`
providers:
  pods:
    driver: kubernetes
    pod:
      nodeSelektor: { pool: gpu }
      nodeSelector: { pool: "two words" }
      containers:
        - name: worker
          resources: { limit: { memory: 16Gi } }
      volumes:
        - { name: models, persistentVolumeClaim: { claimname: models } }
      priorityClassName: high
pools:
  llama: { model: m, machines: [{ provider: pods, instance_type: NVIDIA L4 }] }
`);
    expect(spec).toBeNull();
    const label = 'expected the value of a label of Kubernetes';
    expect(faults).toEqual([
      '6:7: providers.pods.pod.nodeSelektor: is not known here; did you mean nodeSelector?',
      expect.stringMatching(`^7:29: providers.pods.pod.nodeSelector.pool: ${label}.*, not "two words"$`),
      '10:24: providers.pods.pod.containers[0].resources.limit: is not known here; did you mean limits?',
      '12:52: providers.pods.pod.volumes[0].persistentVolumeClaim.claimname: is not known here; did you mean claimName?',
      expect.stringMatching(
        `^15:66: pools.llama.machines\\[0\\].instance_type: ${label}.*, not "NVIDIA L4"$`,
      ),
    ]);
  });

  it('has what it lacks told at the place around it, and an empty one what it must have', () => {
    expect(said('').faults).toEqual(['1:1: providers: is missing', '1:1: pools: is missing']);
  });

  it('has faults of the YAML itself told at their place', () => {
    expect(said('providers: {}\npools: [\n').faults[0]).toMatch(/^3:1: : .*Flow sequence/);
    expect(said('pools: {}\nproviders: {}\npools: {}\n').faults).toEqual(['3:1: : Map keys must be unique']);
  });

  it('has variables told that the launcher sets, that no worker knows, that are wrong, or that are secrets', () => {
    const text = GOOD.replace(
      /env: .*/,
      [
        'env:',
        '      CASOLA_HEARTBEAT_INTERVALL: 5',
        '      CASOLA_MAX_JOBS: 4',
        '      VLLM_MODEL: other',
        '      VLLM_STARTUP_TIMEOUT: soon',
        '      HF_TOKEN: hf_abc',
        '      ENFORCE_EAGR: true',
      ].join('\n'),
    );
    const { faults, warnings } = said(text);
    expect(faults).toEqual([
      '9:7: pools.llama-8b.env.CASOLA_HEARTBEAT_INTERVALL: is no variable of a worker; did you mean CASOLA_HEARTBEAT_INTERVAL?',
      '10:7: pools.llama-8b.env.CASOLA_MAX_JOBS: cannot be set here: write it as "slots" of the pool',
      '11:7: pools.llama-8b.env.VLLM_MODEL: cannot be set here: write it as "model" of the pool',
      expect.stringMatching(
        /^12:29: pools.llama-8b.env.VLLM_STARTUP_TIMEOUT: expected a number of seconds.*, not "soon"$/,
      ),
      expect.stringMatching(/^13:7: pools.llama-8b.env.HF_TOKEN: looks like a secret/),
    ]);
    expect(warnings).toEqual([
      '14:7: pools.llama-8b.env.ENFORCE_EAGR: will be taken for a flag of the engine; did you mean ENFORCE_EAGER?',
    ]);
  });

  it('does not show a secret that stands in it', () => {
    expect(JSON.stringify(said(GOOD.replace('MAX_MODEL_LEN: 8192', 'HF_TOKEN: hf_abc')))).not.toContain(
      'hf_abc',
    );
  });

  it('is warned about where this environment lacks a secret, and where it asks for what cannot be', () => {
    const text = `
budget: { per_hour: 1, per_day: 100 }
providers:
  here: { driver: process, gpus: [0, 1], max: 1 }
  pod: { driver: runpod }
pools:
  big: { model: m, secrets: [HF_TOKEN], machines: [{ provider: here, gpus: 4 }] }
  small: { model: m, min: 2, max: 3, machines: [{ provider: here, price_per_hour: 1, gpus: 1 }] }
`;
    const { faults, warnings } = said(text);
    expect(faults).toEqual([]);
    expect(warnings).toEqual([
      '2:21: budget.per_hour: is less than the $2.00 an hour that all pools cost at min: not all of these workers are started',
      '4:47: providers.here.max: is less than the 2 workers that pools have there at min',
      '5:18: providers.pod.driver: RUNPOD_API_KEY is not set in this environment; it must be set where the launcher runs',
      '7:30: pools.big.secrets[0]: HF_TOKEN is not set in this environment; it must be set where the launcher runs',
      '7:76: pools.big.machines[0].gpus: needs 4 GPUs, and here has 2',
      '8:92: pools.small.machines[0].gpus: 3 workers of 1 GPU each need 3, and here has 2',
    ]);
    const env = { HF_TOKEN: 'x', RUNPOD_API_KEY: 'y' };
    expect(said(text, env).warnings.join('\n')).not.toContain('not set');
  });

  it('is refused with a name that objects keep for themselves, wherever it stands', () => {
    const { faults } = readFleetText(
      'providers: { here: { driver: process } }\npools: { p: { model: m, env: { __proto__: x }, machines: [{ provider: here }] } }',
      {},
    );
    expect(faults).toEqual([
      { line: 2, column: 32, path: 'pools.p.env.__proto__', text: 'is no name of anything' },
    ]);
  });

  it('is warned about where a secret cannot be used as it is here, which is not shown', () => {
    const { warnings } = readFleetText(
      `providers:
  here: { driver: process }
  cloud: { driver: vast, api_key_variable: MINE }
pools:
  p: { model: m, secrets: [HF_TOKEN, OTHER], machines: [{ provider: here }] }
`,
      { HF_TOKEN: 'hush\nhush', MINE: '“hush”', OTHER: 'a b' },
    );
    expect(warnings.map(({ text }) => text)).toEqual([
      expect.stringMatching(/^MINE cannot be used as it is set in this environment: its character 1 is/),
      expect.stringMatching(/^HF_TOKEN cannot be used as it is set in this environment: its character 5 is/),
    ]);
    expect(JSON.stringify(warnings)).not.toContain('hush');
  });

  it('is refused where its aliases stand for more than any memory holds', () => {
    const bomb = ['a: &a0 [x, x, x, x, x, x, x, x, x]'];
    for (let n = 1; n < 12; n++)
      bomb.push(
        `b${n}: &a${n} [${Array(9)
          .fill(`*a${n - 1}`)
          .join(', ')}]`,
      );
    expect(said(bomb.join('\n')).faults).toEqual([expect.stringMatching(/^1:1: : Excessive alias count/)]);
  });

  it('is refused with volumes that Docker would not take', () => {
    const volumes = ['models:/models', '/models:/models:ro', 'mm:/b:rw,z'];
    const wrong = ['models:/models:zz', './models:/models', 'models', 'models:models', ':/models'];
    const text = (given: string[]) =>
      `providers: { box: { driver: docker, volumes: ${JSON.stringify(given)} } }\npools: {}\n`;
    const about = (given: string[]) => said(text(given)).faults.filter((fault) => fault.includes('volumes'));
    expect(about(volumes)).toEqual([]);
    expect(about(wrong)).toHaveLength(wrong.length);
    expect(about(wrong)[0]).toContain(
      'providers.box.volumes[0]: expected an absolute path or the name of a volume',
    );
  });
});
