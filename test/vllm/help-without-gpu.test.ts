import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { ensureVllm } from '../../scripts/vllm/setup.ts';
import { parseHelp } from '../../src/engine/command/learn-flags.ts';

const FOLDER = join(import.meta.dirname, '../../scripts/help-without-gpu');

/** What vLLM for GPUs is where there is none; its kernels, which this build has for the CPU, stay out of it. */
const WITHOUT_A_DEVICE = `
import sys
import vllm.platforms
from vllm.platforms.interface import UnspecifiedPlatform
UnspecifiedPlatform.import_kernels = classmethod(lambda cls: None)
vllm.platforms._current_platform = UnspecifiedPlatform()
from vllm.entrypoints.cli.main import main
sys.argv = ["vllm", "serve", "--help=all"]
main()
`;

it('vLLM tells the same flags in the build of an image as on a machine that can run it', async () => {
  const { python, vllmCommand } = await ensureVllm();
  const help = async (program: string, args: string[], env: NodeJS.ProcessEnv = {}) => {
    const options = { env: { ...process.env, COLUMNS: '400', ...env }, maxBuffer: 16 * 1024 ** 2 };
    return parseHelp((await promisify(execFile)(program, args, options)).stdout);
  };
  const inBuild = await help(python, ['-c', WITHOUT_A_DEVICE], {
    PYTHONPATH: FOLDER,
    PYTHONDONTWRITEBYTECODE: '1',
  });
  expect(inBuild.length).toBeGreaterThan(100);
  expect(inBuild).toEqual(await help(vllmCommand, ['serve', '--help=all']));
});
