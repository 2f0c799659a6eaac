import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { commandLine } from '../command-line.ts';
import { packTarball } from '../pack.ts';

/**
 * Makes `dist/gpu/`: all that `run.sh` there needs on a machine with a GPU, with Python, torch and transformers and
 * without a network. Some 40 MB, for x86.
 */

const { python } = commandLine(
  'node scripts/gpu/pack.ts',
  'packs what measures the road on a GPU, into dist/gpu',
)
  .option('--python <version>', 'of the machine with the GPU', '3.12')
  .parse()
  .opts<{ python: string }>();

/** The packages that `transformers serve` needs beside transformers. Images with torch have the rest. */
const WHEELS = [
  ...[
    'accelerate==1.15.0',
    'annotated-doc==0.0.7',
    'annotated-types==0.8.0',
    'distro==1.9.0',
    'fastapi==0.136.3',
  ],
  ...['jiter==0.19.0', 'openai==2.54.0', 'pydantic==2.14.4', 'pydantic-core==2.50.5', 'sniffio==1.3.1'],
  ...['starlette==1.10.0', 'typing-extensions', 'typing-inspection==0.4.5', 'uvicorn==0.54.0'],
];
const PLATFORMS = ['manylinux_2_28_x86_64', 'manylinux_2_17_x86_64', 'manylinux2014_x86_64'];

const root = join(import.meta.dirname, '../..');
const folder = join(root, 'dist/gpu');
const run = (program: string, args: string[]) =>
  execFileSync(program, args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
renameSync(packTarball(folder).path, join(folder, 'package.tgz'));
for (const name of ['engine.py', 'load.ts', 'measure.ts', 'nvidia-smi', 'run.sh'])
  cpSync(join(import.meta.dirname, name), join(folder, name));
cpSync(join(root, 'scripts/vllm/make_tiny_model.py'), join(folder, 'make_tiny_model.py'));
console.log('compressing Node, which takes a minute');
const compress =
  'import lzma,shutil,sys; shutil.copyfileobj(open(sys.argv[1],"rb"), lzma.open(sys.argv[2],"w",preset=6))';
run('python3', ['-c', compress, join(root, 'node_modules/node/bin/node'), join(folder, 'node.xz')]);
run('python3', [
  ...['-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--no-deps', '--only-binary=:all:'],
  ...[
    '--implementation',
    'cp',
    '--python-version',
    python,
    ...PLATFORMS.flatMap((name) => ['--platform', name]),
  ],
  ...['--dest', join(folder, 'wheels'), ...WHEELS],
]);
console.log(
  `${folder}: Node alone has ${Math.round(statSync(join(folder, 'node.xz')).size / 1e6)} MB. On the GPU: sh run.sh`,
);
